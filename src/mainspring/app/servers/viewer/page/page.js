"use strict";

const get = (id) => document.getElementById(id);
const EVERY = 1500;
const view = { runs: [], chosen: "", span: "", detail: null, shown: "", order: [] };

// The token comes from the URL once, and then stays in this tab only.
function takeToken() {
  const given = location.hash.match(/^#token=(.+)$/);
  if (!given) return;
  sessionStorage.setItem("token", given[1]);
  history.replaceState(null, "", location.pathname);
}
function readAddress() {
  takeToken();
  try {
    const [run, span] = location.hash.slice(1).split("/").map(decodeURIComponent);
    return [run || "", span || ""];
  } catch (error) { // the user edited the URL
    return ["", ""];
  }
}
function writeAddress() {
  const parts = [view.chosen, view.span].filter(Boolean).map(encodeURIComponent);
  history.replaceState(null, "", `#${parts.join("/")}`);
}
[view.chosen, view.span] = readAddress();

function make(tag, fields = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(fields)) {
    if (name === "class") node.className = value;
    else if (name === "text") node.textContent = value;
    else if (name in node && typeof value === "function") node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child));
  return node;
}

function took(ms) {
  if (ms === null || !Number.isFinite(ms)) return "";
  if (ms === 0) return "0";
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
  return `${Math.floor(ms / 60000)} min ${Math.round((ms % 60000) / 1000)} s`;
}
function tokens(count) {
  return count >= 10000 ? `${(count / 1000).toFixed(1)}k` : String(count || 0);
}
function money(run) {
  const known = `$${(run.cost || 0).toFixed(run.cost && run.cost < 0.01 ? 5 : 4)}`;
  if (!run.unpriced) return known;
  return run.cost ? `${known} + unknown` : "unknown";
}
function clock(ms) {
  const date = new Date(ms);
  const day = date.toDateString() === new Date().toDateString() ? "" : `${date.toLocaleDateString()} `;
  return day + date.toLocaleTimeString();
}
function light(status) {
  if (status === "completed") return "";
  if (status === "running" || status === undefined) return "running";
  if (status === "error" || status === "denied") return "bad";
  return status.startsWith("max_") ? "limit" : "other";
}
const statusOf = (run) => run.status || "running";
const endOf = (run) => run.end || (statusOf(run) === "running" ? Date.now() : run.last || run.start);

function matches(run, words) {
  const text = [run.title, run.place, run.model, statusOf(run), run.session].join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}

function showRuns() {
  const words = get("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = view.runs.filter((run) => matches(run, words));
  get("empty").hidden = view.runs.length > 0;
  const items = shown.map((run) => {
    const facts = [clock(run.start), took(endOf(run) - run.start), `${tokens((run.inputTokens || 0) + (run.outputTokens || 0))} tokens`, money(run)];
    const button = make("button", { type: "button", "data-run": run.id, onclick: () => choose(run.id) },
      make("span", { class: "top" },
        make("span", { class: `dot ${light(run.status)}`, title: statusOf(run) }),
        make("span", { class: "name", text: run.title || "(no title)" })),
      make("span", { class: "facts", text: facts.join(" · ") }),
      make("span", { class: "facts", text: [run.model, run.place].filter(Boolean).join(" · ") }));
    if (run.id === view.chosen) button.setAttribute("aria-current", "true");
    return make("li", {}, button);
  });
  const focused = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.run : "";
  get("runs").replaceChildren(...items);
  if (focused) {
    const again = [...get("runs").querySelectorAll("button")].find((button) => button.dataset.run === focused);
    if (again) again.focus({ preventScroll: true });
  }
}

function choose(id, span = "") {
  view.chosen = id;
  view.span = span;
  view.shown = "";
  writeAddress();
  showRuns();
  loadRun();
}

function arranged(spans) {
  const byParent = new Map();
  const known = new Set(spans.map((span) => span.id));
  for (const span of spans) {
    const parent = known.has(span.parent) && span.parent !== span.id ? span.parent : "";
    if (!byParent.has(parent)) byParent.set(parent, []);
    byParent.get(parent).push(span);
  }
  const order = [];
  const seen = new Set();
  const waiting = (byParent.get("") || []).slice().reverse().map((span) => [span, 0]);
  while (waiting.length) {
    const [span, depth] = waiting.pop();
    if (seen.has(span.id)) continue;
    seen.add(span.id);
    order.push([span, depth]);
    for (const child of (byParent.get(span.id) || []).slice().reverse()) waiting.push([child, depth + 1]);
  }
  for (const span of spans) if (!seen.has(span.id)) order.push([span, 0]);
  return order;
}

function figure(name, value) {
  return make("div", {}, make("dt", { text: name }), make("dd", { text: value }));
}

function showRun() {
  const { summary, spans } = view.detail;
  get("hint").hidden = true;
  get("run").hidden = false;
  get("title").textContent = summary.title || "(no title)";
  document.title = `${summary.title || "Run"} – Mainspring`;
  get("facts").textContent = [statusOf(summary), clock(summary.start), summary.model, summary.place, summary.session && `session ${summary.session}`]
    .filter(Boolean).join(" · ");
  get("figures").replaceChildren(
    figure("Time", took(endOf(summary) - summary.start)), figure("Tokens in", tokens(summary.inputTokens)),
    figure("Tokens out", tokens(summary.outputTokens)), figure("Cost", money(summary)), figure("Model calls", summary.models || 0),
    figure("Tool calls", summary.tools || 0), figure("Errors", summary.errors || 0),
    summary.dropped ? figure("Not shown", `${summary.dropped} more`) : "");
  const failed = spans.find((span) => span.error && !spans.some((other) => other.id === span.parent));
  get("problem").hidden = !failed;
  get("problem").textContent = failed ? failed.error : "";
  showRows(summary, spans);
  showMessages(view.detail.messages || []);
}

function showRows(summary, spans) {
  const order = arranged(spans);
  view.order = order.map(([span]) => span.id);
  const starts = spans.map((span) => span.start || 0);
  const from = spans.length ? starts.reduce((a, b) => Math.min(a, b)) : summary.start;
  const until = spans.reduce((last, span) => Math.max(last, span.end || span.start || 0), endOf(summary));
  const length = Math.max(until - from, 0.001);
  const share = (ms) => `${Math.min(100, Math.max(0, (ms / length) * 100))}%`;
  get("scale").replaceChildren(...[0, 0.25, 0.5, 0.75, 1].map((part) => make("span", { text: took(length * part) })));
  const rows = order.map(([span, depth]) => {
    const end = span.end || until;
    const bar = make("span", { class: "bar" });
    bar.style.left = share((span.start || 0) - from);
    bar.style.width = share(end - (span.start || 0));
    const ticks = (span.events || []).filter((event) => /retry|exception/.test(event.name)).map((event) => {
      const tick = make("span", { class: "tick", title: `${event.name}: ${Object.values(event.attributes || {}).join(" · ")}` });
      tick.style.left = share(event.time - from);
      return tick;
    });
    const name = make("span", { class: "name" },
      make("span", { class: "mark" }),
      make("span", { class: "text", text: span.name, title: span.name }),
      span.inputTokens || span.outputTokens ? make("span", { class: "badge", text: `${tokens(span.inputTokens)}→${tokens(span.outputTokens)}` }) : null,
      ticks.length ? make("span", { class: "badge", text: `${ticks.length}× retried` }) : null);
    name.style.paddingLeft = `${8 + Math.min(depth, 12) * 16}px`;
    const row = make("div", {
      class: `row ${span.kind || "other"}${span.error ? " failed" : ""}${span.end ? "" : " open"}`, role: "treeitem", "aria-level": depth + 1,
      "data-span": span.id, "aria-selected": String(span.id === view.span), onclick: () => chooseSpan(span.id),
    }, name, make("span", { class: "track" }, bar, ...ticks), make("span", { class: "took", text: span.end ? took(end - (span.start || 0)) : "…" }));
    return row;
  });
  get("rows").replaceChildren(...rows);
  showSpan(spans.find((span) => span.id === view.span));
}

function chooseSpan(id) {
  view.span = view.span === id ? "" : id;
  writeAddress();
  for (const row of get("rows").children) row.setAttribute("aria-selected", String(row.dataset.span === view.span));
  showSpan(view.detail.spans.find((span) => span.id === view.span));
}

function plain(value) {
  if (typeof value === "string") return value;
  if (Array.isArray(value) && value.every((item) => item && Array.isArray(item.parts))) return value.map(saidIn).join("\n\n");
  return JSON.stringify(value, null, 2);
}
function saidIn(message) {
  const parts = message.parts.filter((part) => part && typeof part === "object").map((part) => {
    if (typeof part.content === "string") return part.type === "reasoning" ? `(thinking) ${part.content}` : part.content;
    if (part.type === "tool_call") return `→ ${part.name} ${JSON.stringify(part.arguments)}`;
    if (part.type === "tool_call_response") return `← ${typeof part.response === "string" ? part.response : JSON.stringify(part.response)}`;
    return `[${part.type}]`;
  });
  return `${message.role}: ${parts.join("\n")}`;
}

function showSpan(span) {
  const box = get("detail");
  if (!span) {
    box.replaceChildren();
    return;
  }
  const key = JSON.stringify(span);
  if (box.dataset.shown === key && box.childNodes.length) return;
  box.dataset.shown = key;
  const facts = [["kind", span.kind || "other"], ["duration", span.end ? took(span.end - span.start) : "running"], ["model", span.model],
    ["tokens in", span.inputTokens], ["of which cached", span.cachedTokens], ["tokens out", span.outputTokens],
    ["cost", span.cost === undefined || span.cost === null ? "" : `$${span.cost.toFixed(6)}`]].filter(([, value]) => value || value === 0);
  const table = (rows) => make("table", {}, ...rows.map(([name, value]) => make("tr", {}, make("td", { text: name.replace(/([._])/g, "$1\u200b") }), make("td", { text: plain(value) }))));
  const parts = [make("h3", { text: span.name }), table(facts)];
  if (span.error) parts.push(make("h4", { text: "Error" }), make("pre", { text: span.error }));
  const names = span.kind === "tool" ? ["Arguments", "Result"] : ["Input", "Output"];
  if (span.input !== undefined && span.input !== null) parts.push(make("h4", { text: names[0] }), make("pre", { text: plain(span.input) }));
  if (span.output !== undefined && span.output !== null) parts.push(make("h4", { text: names[1] }), make("pre", { text: plain(span.output) }));
  for (const event of span.events || []) {
    parts.push(make("h4", { text: `${event.name} · ${took(event.time - span.start)} in` }));
    if (event.attributes) parts.push(table(Object.entries(event.attributes)));
  }
  const rest = Object.entries(span.attributes || {}).sort(([one], [other]) => (one < other ? -1 : 1));
  if (rest.length) parts.push(make("h4", { text: "Attributes" }), table(rest));
  box.replaceChildren(...parts);
}

function showMessages(messages) {
  get("conversation").hidden = messages.length === 0;
  get("messages").replaceChildren(...messages.map((message) => make("div", { class: `message ${message.kind}` },
    make("div", { class: "who", text: [message.kind, message.model, message.when && clock(message.when)].filter(Boolean).join(" · ") }),
    message.text ? make("div", { class: "said", text: message.text }) : null,
    ...(message.calls || []).map((call) => make("div", { class: call.failed ? "failed" : "", text: `→ ${call.name} ${plain(call.input)}` })),
    message.error ? make("div", { class: "failed", text: message.error }) : null)));
}

async function ask(path) {
  const headers = { authorization: `Bearer ${sessionStorage.getItem("token") || ""}` };
  const answer = await fetch(path, { cache: "no-store", headers }).catch(() => ({}));
  if (answer.status === 404) return null;
  if (!answer.ok) throw new Error(answer.status === 401 ? "Access denied. Open the URL of: mainspring telemetry url" : "Disconnected");
  return answer.json();
}

async function loadRun() {
  const chosen = view.chosen;
  if (!chosen) return;
  const detail = await ask(`/api/runs/${encodeURIComponent(chosen)}`);
  if (chosen !== view.chosen) return;
  if (!detail) {
    const same = view.runs.find((run) => run.run && chosen.endsWith(run.run));
    if (same && same.id !== chosen) choose(same.id);
    return;
  }
  const text = JSON.stringify(detail);
  if (text === view.shown && detail.summary.end) return;
  view.shown = text;
  view.detail = detail;
  showRun();
}

async function look() {
  try {
    const answer = await ask("/api/runs");
    view.runs = answer.runs;
    for (const run of view.runs) run.last = run.end;
    showRuns();
    if (!view.chosen && view.runs.length) choose(view.runs[0].id);
    else await loadRun();
    get("state").textContent = "Live";
    get("state").className = "";
  } catch (error) {
    get("state").textContent = error.message;
    get("state").className = "lost";
  }
}

function move(step) {
  const at = view.order.indexOf(view.span);
  const next = view.order[Math.min(view.order.length - 1, Math.max(0, at + step))];
  if (next && next !== view.span) chooseSpan(next);
}

get("endpoint").textContent = location.origin;
get("filter").addEventListener("input", showRuns);
get("waterfall").addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    move(event.key === "ArrowDown" ? 1 : -1);
    event.preventDefault();
  }
});
addEventListener("hashchange", () => choose(...readAddress()));
setInterval(() => document.hidden || look(), EVERY);
look();
