// Requests to the service, and event streams of runs. EventSource cannot send the token in a header, so both use fetch.

export class RequestError extends Error {
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
  const problem = await answer.json().catch(() => ({}));
  throw new RequestError(answer.status, problem.code ?? "", problem.message ?? `The server returned status ${answer.status}.`, Number(answer.headers.get("retry-after")) || 0);
}

export const get = async (path) => (await request("GET", path)).json();
export const post = async (path, body) => (await request("POST", path, body)).json();

const pause = (seconds, signal) => new Promise((done) => {
  const timer = setTimeout(done, seconds * 1000);
  signal.addEventListener("abort", () => { clearTimeout(timer); done(); }, { once: true });
});

// Call onEvent(event) exactly once for every event, across reconnects, until the run ends or the signal aborts.
export async function follow(id, onEvent, showState, signal) {
  let last = "", wait = 1, over = false;
  while (!signal.aborted && !over) {
    try {
      const headers = last ? { "last-event-id": last } : {};
      const answer = await request("GET", `/v1/runs/${id}/events`, undefined, { headers, signal });
      showState("");
      if (answer.status === 204) return;
      for await (const event of eventsOf(answer.body)) {
        if (event.id) last = event.id;
        wait = 1;
        onEvent(event.data);
        if (event.data.type === "agent_end") over = true;
      }
      if (!over && ["done", "failed", "cancelled"].includes((await get(`/v1/runs/${id}`)).state)) over = true;
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof RequestError && error.status !== 429 && error.status < 500) throw error;
      showState("Connection lost. Reconnecting...");
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
