// Events of a run as elements. Text is inserted as text and never as HTML.

export function el(name, className = "", text = "") {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text) made.textContent = text;
  return made;
}

export function diffOf(text) {
  const made = el("pre", "diff");
  for (const line of text.replace(/\n$/, "").split("\n")) {
    const kind = line.startsWith("@@") || line.startsWith("---") || line.startsWith("+++") ? "place" : line[0] === "+" ? "added" : line[0] === "-" ? "removed" : "";
    made.append(el("span", kind, line || " "));
  }
  return made;
}

const lines = (text, mark) => text.replace(/\n$/, "").split("\n").map((line) => mark + line);

// Return the change that a tool call would make to a file, if its arguments contain one.
export function changeOf(input) {
  const edits = Array.isArray(input.edits) ? input.edits : [input];
  const parts = [];
  for (const edit of edits) {
    if (edit && typeof edit.old_string === "string" && typeof edit.new_string === "string") parts.push(...lines(edit.old_string, "-"), ...lines(edit.new_string, "+"));
  }
  if (typeof input.content === "string" && input.path) parts.push(...lines(input.content, "+"));
  if (typeof input.patch === "string") parts.push(...input.patch.split("\n"));
  return parts.length ? parts.join("\n") : "";
}

export function argumentsOf(input) {
  const made = document.createDocumentFragment();
  const change = changeOf(input);
  const rest = Object.entries(input).filter(([name]) => !change || !["old_string", "new_string", "edits", "content", "patch"].includes(name));
  const names = rest.map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`);
  if (names.length) made.append(el("pre", "", names.join("\n")));
  if (change) made.append(diffOf(change));
  return made;
}

const textOf = (content) => (typeof content === "string" ? content : content.map((b) => (b.type === "text" ? b.text : `[${b.media_type}]`)).join("\n"));
const short = (input) => { const value = Object.values(input).find((v) => typeof v === "string") ?? ""; return value.split("\n")[0].slice(0, 90); };

const money = (cost) => (cost && cost < 0.0001 ? "less than $0.0001" : `$${cost.toFixed(4)}`);

export class Conversation {
  constructor(place) {
    this.place = place;
    this.clear();
  }

  clear() {
    this.place.replaceChildren();
    this.live = this.thought = null;
    this.calls = new Map();
    this.tokens = this.cost = 0;
    this.priced = true;
    this.questions = new Map(); // approvals by ID
    this.status = "";
    this.begun = false;
  }

  add(element) {
    const place = this.place;
    const atEnd = place.scrollHeight - place.scrollTop - place.clientHeight < 80;
    if (element) place.append(element);
    if (atEnd) place.scrollTop = place.scrollHeight;
    return element;
  }

  show(event) {
    switch (event.type) {
      case "attempt_start": if (event.number > 1) this.drop(); break;
      case "turn_start": this.begun = true; break;
      case "text_delta": this.grow("live", "said assistant live", event.text); break;
      case "thinking_delta": this.think(event.text); break;
      case "message_end": this.message(event.message); break;
      case "tool_execution_start": this.call(event.call); break;
      case "tool_execution_update": this.progress(event); break;
      case "tool_execution_end": this.result(event); break;
      case "approval_request": this.questions.set(event.id, event); break;
      case "approval_result": this.questions.delete(event.id); break;
      case "model_retry": this.add(el("p", "end", `${event.continues ? "The response was cut off. Continuing it" : "Retrying"} in ${event.delay.toFixed(1)}s (attempt ${event.attempt} of ${event.max_retries}): ${event.error.message}`)); break;
      case "agent_end": this.end(event); break;
    }
  }

  grow(name, className, text) {
    if (!this[name]) this[name] = this.add(el("div", className));
    this[name].append(text);
    this.add(null);
  }

  think(text) {
    if (!this.thought) {
      const box = el("details", "thinking");
      box.append(el("summary", "", "Thinking"), el("pre"));
      this.thought = this.add(box);
    }
    this.thought.lastChild.append(text);
  }

  drop() {
    this.live?.remove();
    this.thought?.remove();
    this.live = this.thought = null;
  }

  message(message) {
    if (message.kind !== "message") return;
    const text = (message.content ?? []).filter((b) => b.type === "text").map((b) => b.text).join("");
    if (message.role === "assistant") {
      this.live?.remove();
      this.live = this.thought = null;
      if (text) this.add(el("div", "said assistant", text));
      this.count(message.usage);
    } else if (text && message.role === "user") this.add(el("div", "said user", text));
    if (!this.begun) this.before(message.content ?? []);
  }

  // Tool calls of copied messages: a fork reports only the messages, without events for their calls.
  before(content) {
    for (const block of content) {
      if (block.type === "tool_use") this.call(block);
      const call = block.type === "tool_result" && this.calls.get(block.tool_use_id)?.call;
      if (call) this.result({ call, result: block });
    }
  }

  count(usage) {
    if (!usage) return;
    this.tokens += (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0) + (usage.cache_read ?? 0) + (usage.cache_write ?? 0);
    if (usage.cost) this.cost += Object.values(usage.cost).reduce((a, b) => a + b, 0);
    else this.priced = false;
  }

  call(call) {
    if (this.calls.has(call.id)) return;
    const box = el("details", "call");
    const head = el("summary");
    head.append(el("code", "", call.name), ` ${short(call.input ?? {})}`);
    box.append(head, argumentsOf(call.input ?? {}), el("pre", "output"));
    box.lastChild.hidden = true;
    box.call = call;
    this.calls.set(call.id, this.add(box));
  }

  progress(event) {
    const output = this.calls.get(event.call_id)?.querySelector(".output");
    if (!output || !event.output) return;
    output.hidden = false;
    output.append(event.output);
  }

  result(event) {
    this.call(event.call);
    const box = this.calls.get(event.call.id), { result } = event;
    box.classList.add(result.is_error ? "failed" : "done");
    box.querySelector("summary").append(el("span", "quiet", ` ${result.is_error ? "failed" : "done"}${event.seconds ? ` in ${event.seconds.toFixed(1)}s` : ""}`));
    const output = box.querySelector(".output");
    output.hidden = false;
    output.textContent = textOf(result.content ?? "");
    const diff = result.details?.diff;
    if (typeof diff === "string" && diff) {
      box.querySelector(".diff")?.remove();
      output.before(diffOf(diff));
      box.open = true;
    }
    this.calls.delete(event.call.id);
  }

  end(event) {
    this.live?.classList.remove("live");
    this.questions.clear();
    this.status = event.status;
    if (event.status !== "completed") this.add(el("p", "end bad", event.error?.message ? `${event.status}: ${event.error.message}` : event.status));
  }

  // Show the totals of the whole run, including subagents.
  total(result) {
    this.tokens = result.total_tokens;
    this.priced = typeof result.cost === "number";
    this.cost = result.cost ?? 0;
  }

  get asked() { return [...this.questions.values()]; }

  get figures() {
    if (!this.tokens) return "";
    return `${this.tokens.toLocaleString("en")} tokens · ${this.priced ? money(this.cost) : "price unknown"}`;
  }
}
