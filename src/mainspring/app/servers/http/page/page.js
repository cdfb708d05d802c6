import { RequestError, follow, get, post, setToken } from "/page/events.js";
import { Conversation, argumentsOf, el } from "/page/view.js";

const $ = (id) => document.getElementById(id);
const conversation = new Conversation($("conversation"));
let current = null, following = null, listed = [];

// --- token: from the URL once, then only in this tab -------------------------------------------------------------------

function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1));
  if (given.get("token")) {
    sessionStorage.setItem("token", given.get("token"));
    given.delete("token");
    history.replaceState(null, "", `${location.pathname}${given.size ? `#${given}` : ""}`);
  }
  setToken(sessionStorage.getItem("token") ?? "");
  return Boolean(sessionStorage.getItem("token"));
}

function askToken(why = "") {
  $("login-problem").textContent = why;
  if (!$("login").open) $("login").showModal();
}

$("login").addEventListener("close", () => {
  sessionStorage.setItem("token", $("token").value.trim());
  $("token").value = "";
  setToken(sessionStorage.getItem("token"));
  begin();
});
$("login").addEventListener("cancel", (event) => event.preventDefault());

function fail(error) {
  if (error instanceof RequestError && error.status === 401) return askToken(error.message);
  $("problem").textContent = error.message || String(error);
  $("problem").hidden = false;
}

const tried = async (work) => {
  $("problem").hidden = true;
  try { return await work(); } catch (error) { fail(error); }
};

// --- runs --------------------------------------------------------------------------------------------------------------

const when = (seconds) => new Date(seconds * 1000).toLocaleString([], { dateStyle: "short", timeStyle: "short" });

function showList() {
  const focused = document.activeElement?.dataset?.run;
  $("runs").replaceChildren(...listed.map((run) => {
    const button = el("button");
    button.type = "button";
    button.dataset.run = run.id;
    button.setAttribute("aria-current", String(run.id === current?.id));
    button.append(el("span", "name", run.title || run.id), el("span", "when", `${run.state} · ${when(run.created)}`));
    button.addEventListener("click", () => open(run));
    return button;
  }));
  if (focused) $("runs").querySelector(`[data-run="${CSS.escape(focused)}"]`)?.focus();
}

async function refresh() {
  listed = (await get("/v1/runs?limit=100")).runs;
  showList();
}

function show() {
  const going = current && !conversation.status;
  $("title").textContent = current ? current.title || current.id : "New run";
  const state = !current ? "" : conversation.status || (conversation.asked.length ? "paused" : current.state);
  $("state").textContent = state;
  $("state").className = `state ${state}`;
  $("cost").textContent = conversation.figures;
  $("stop").hidden = !going;
  $("how-label").hidden = !going;
  $("agent").disabled = Boolean(current);
  document.title = current ? `${current.title || current.id} – Mainspring` : "Mainspring";
}

function showAsked() {
  const known = new Set([...$("waiting").children].map((box) => box.dataset.call));
  const wanted = new Set(conversation.asked.map((asked) => asked.call.id));
  for (const box of [...$("waiting").children]) if (!wanted.has(box.dataset.call)) box.remove();
  for (const asked of conversation.asked) if (!known.has(asked.call.id)) $("waiting").append(question(asked));
}

function question({ call, reason, agent }) {
  const box = el("div", "asked"), row = el("div", "row");
  box.dataset.call = call.id;
  const head = el("div");
  head.append("Allow ", el("code", "", call.name), agent ? ` for the subagent ${agent}?` : "?");
  const why = el("input");
  why.placeholder = "Reason (optional)";
  why.setAttribute("aria-label", "Reason for denying");
  const answer = (kind, text, className, body) => {
    const button = el("button", className, text);
    button.type = "button";
    button.addEventListener("click", () => tried(async () => {
      button.disabled = true;
      try {
        await post(`/v1/runs/${current.id}/${kind}`, { call_id: call.id, ...body() });
        box.remove();
        ($("waiting").querySelector("button") ?? $("prompt")).focus();
      } finally { button.disabled = false; }
    }));
    return button;
  };
  const reasoned = (more) => () => ({ ...(why.value.trim() ? { reason: why.value.trim() } : {}), ...more });
  row.append(answer("approve", "Allow (y)", "yes", () => ({})), answer("deny", "Deny", "no", reasoned({})), answer("deny", "Deny and Stop", "", reasoned({ stop: true })), why);
  box.append(head, el("div", "quiet", reason), argumentsOf(call.input ?? {}), row);
  return box;
}

function open(run) {
  following?.abort();
  following = new AbortController();
  current = run;
  conversation.clear();
  $("waiting").replaceChildren();
  $("problem").hidden = true;
  const { signal } = following;
  const onEvent = (event) => {
    if (signal.aborted) return;
    conversation.show(event);
    if (["approval_request", "approval_result", "agent_end"].includes(event.type)) showAsked();
    show();
    if (event.type.startsWith("approval_")) refresh().catch(fail);
    if (event.type === "agent_end") get(`/v1/runs/${run.id}/result?wait=5`).then((result) => {
      if (signal.aborted || !result.total_tokens) return;
      conversation.total(result);
      show();
    }).catch(() => {}).then(refresh).catch(fail); // the service knows the end of the run by then
  };
  const showState = (text) => { $("service").textContent = text; };
  follow(run.id, onEvent, showState, signal).then(async () => {
    if (signal.aborted || conversation.status) return;
    const known = await get(`/v1/runs/${run.id}`);
    if (["failed", "cancelled"].includes(known.state)) onEvent({ type: "agent_end", status: known.state, error: { message: known.error } });
  }).catch((error) => { if (!signal.aborted) fail(error); });
  show();
  showList();
}

function fresh() {
  following?.abort();
  current = null;
  conversation.clear();
  $("waiting").replaceChildren();
  show();
  showList();
  $("prompt").focus();
}

async function send() {
  const prompt = $("prompt").value.trim();
  if (!prompt) return;
  if (!current || conversation.status) {
    const run = current ? await post(`/v1/runs/${current.id}/fork`, { prompt }) : await post("/v1/runs", { prompt, agent: $("agent").value || undefined });
    $("prompt").value = "";
    open(run);
    await refresh();
  } else {
    await post(`/v1/runs/${current.id}/${$("how").value}`, { text: prompt });
    $("prompt").value = "";
  }
}

// --- input -------------------------------------------------------------------------------------------------------------

$("ask").addEventListener("submit", (event) => { event.preventDefault(); tried(send); });
$("prompt").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); tried(send); }
});
$("new").addEventListener("click", fresh);
const stop = () => tried(() => post(`/v1/runs/${current.id}/abort`, { reason: "Stopped by the user" }));
$("stop").addEventListener("click", stop);

document.addEventListener("keydown", (event) => {
  const typing = ["INPUT", "TEXTAREA", "SELECT"].includes(document.activeElement?.tagName);
  if ($("login").open || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") { if (typing) document.activeElement.blur(); else if (!$("stop").hidden) stop(); }
  if (typing) return;
  if (event.key === "n") { event.preventDefault(); fresh(); }
  if (event.key === "/") { event.preventDefault(); $("prompt").focus(); }
  if (event.key === "y") $("waiting").querySelector(".yes")?.click();
  if ((event.key === "j" || event.key === "k") && listed.length) {
    const at = listed.findIndex((run) => run.id === current?.id);
    open(listed[Math.max(0, Math.min(listed.length - 1, at + (event.key === "j" ? 1 : -1)))]);
  }
});

async function begin() {
  await tried(async () => {
    const { agents } = await get("/v1/agents");
    $("agent").replaceChildren(...agents.map(({ name }) => el("option", "", name)));
    await refresh();
    if (!current) $("prompt").focus();
  });
}

setInterval(() => { if (!document.hidden && !$("login").open) refresh().catch(() => {}); }, 5000);
if (takeToken()) begin(); else askToken();
show();
