// Asking the service, and following a run: by fetch, since the token goes in a header and never into an address.

export class Refused extends Error {
  constructor(status, code, message, after) {
    super(message);
    this.status = status;
    this.code = code;
    this.after = after;
  }
}

let token = "";

export const setToken = (value) => { token = value; };

async function request(method, path, body, more = {}) {
  const headers = { authorization: `Bearer ${token}`, ...more.headers };
  if (body !== undefined) headers["content-type"] = "application/json";
  const answer = await fetch(path, { ...more, method, headers, body: body === undefined ? undefined : JSON.stringify(body), cache: "no-store" });
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => ({}));
  throw new Refused(answer.status, told.code ?? "", told.message ?? `the service answered ${answer.status}`, Number(answer.headers.get("retry-after")) || 0);
}

export const get = async (path) => (await request("GET", path)).json();
export const post = async (path, body) => (await request("POST", path, body)).json();

const pause = (seconds, signal) => new Promise((done) => {
  const timer = setTimeout(done, seconds * 1000);
  signal.addEventListener("abort", () => { clearTimeout(timer); done(); }, { once: true });
});

// Calls tell(event) for every event, once each, whatever breaks on the way; ends when the run does or the signal says so.
export async function follow(id, tell, state, signal) {
  let last = "", wait = 1, over = false;
  while (!signal.aborted && !over) {
    try {
      const headers = last ? { "last-event-id": last } : {};
      const answer = await request("GET", `/v1/runs/${id}/events`, undefined, { headers, signal });
      state("");
      if (answer.status === 204) return;
      for await (const event of eventsOf(answer.body)) {
        if (event.id) last = event.id;
        wait = 1;
        tell(event.data);
        if (event.data.type === "end") over = true;
      }
      if (!over && ["done", "failed", "cancelled"].includes((await get(`/v1/runs/${id}`)).state)) over = true;
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refused && error.status !== 429 && error.status < 500) throw error;
      state("the connection is lost; trying again");
      wait = error.after || Math.min(wait * 2, 15);
    }
    if (!over) await pause(wait, signal);
  }
}

async function* eventsOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let left = "", id = "", data = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (left + value).split("\n");
      left = lines.pop();
      for (const line of lines) {
        if (line === "") {
          if (data) yield { id, data: JSON.parse(data) };
          id = data = "";
        } else if (line.startsWith("id: ")) id = line.slice(4);
        else if (line.startsWith("data: ")) data += line.slice(6);
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
