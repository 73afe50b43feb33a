// A chat over the gateway's native dialect, next to the HTTP requests that it causes.

import { $, api, call, clock, count, el, put, seconds } from "./parts.js";

const TOOL = {
  type: "function",
  function: {
    name: "tide",
    description: "When the tide turns in a port.",
    parameters: { type: "object", properties: { port: { type: "string" } }, required: ["port"] },
  },
};

const IDS = "x-dragoman-tool-ids";
const MAX_EVENTS = 2000;

let messages = [], ids = null, image = null, running = null;

export function offerModels(names) {
  const list = $("models"), signature = names.join();
  if (list.dataset.signature === signature) return;
  list.dataset.signature = signature;
  list.replaceChildren(...names.map((name) => el("option", { value: name })));
  if (!$("model").value) $("model").value = names[0] || "";
}

// Requests ------------------------------------------------------------------------------------------------------------

function requestBody() {
  const body = { model: $("model").value.trim(), stream: true, messages };
  if ($("system").value.trim()) body.messages = [{ role: "system", content: $("system").value }, ...messages];
  if ($("max-tokens").value) body.max_tokens = Number($("max-tokens").value);
  if ($("temperature").value) body.temperature = Number($("temperature").value);
  if ($("with-tool").checked) {
    body.tools = [JSON.parse($("tool").value)];
    const hasResults = messages.at(-1)?.role === "tool";
    body.tool_choice = hasResults && $("choice").value === "required" ? "auto" : $("choice").value;
  }
  return body;
}

async function ask() {
  let body;
  try {
    body = requestBody();
  } catch (error) {
    return showError(`tool must be JSON: ${error.message}`);
  }
  running = new AbortController();
  busy(true);
  const answer = newAnswer(), began = performance.now();
  const headers = ids ? { [IDS]: ids } : {};
  const explanation = explain(body, headers).catch((error) => put($("receipt"), error.message));
  try {
    const reply = await call("native/v1/chat/completions", body, { signal: running.signal, headers });
    ids = reply.headers.get(IDS) || ids;
    put($("receipt"), `${reply.headers.get("x-dragoman-target") || body.model} is answering.`);
    await read(reply, answer);
    finish(answer);
    await explanation;
    await showReceipt(reply.headers.get("x-request-id"), answer, body.model, performance.now() - began);
  } catch (error) {
    answer.node.classList.remove("wait");
    if (!answer.parts.length) answer.node.remove();
    if (error.name !== "AbortError") showError(error.message);
    if (answer.parts.length) finish(answer);
    await explanation;
    const row = await showOutcomes((each) => each.started_at * 1000 >= performance.timeOrigin + began - 1000);
    put($("receipt"), `${row?.target || body.model} ${error.name === "AbortError" ? "was stopped" : "failed"}.`);
  } finally {
    busy(false);
    running = null;
  }
}

async function* lines(reply, began) {
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const pieces = (rest + value).split("\n");
    rest = pieces.pop();
    for (const piece of pieces.filter(Boolean)) {
      showEvent(piece, performance.now() - began);
      if (piece.startsWith("data: {")) yield JSON.parse(piece.slice(6));
    }
  }
}

async function read(reply, answer) {
  $("events").textContent = "";
  $("events").dataset.count = 0;
  for await (const chunk of lines(reply, answer.began)) {
    if (chunk.error) throw new Error(chunk.error.message);
    const delta = chunk.choices[0].delta;
    if (chunk.usage) answer.usage = chunk.usage;
    for (const called of delta.tool_calls || []) answer.calls[called.index] = called;
    if (delta.index === undefined) continue;
    const part = (answer.parts[delta.index] ??= { type: delta.thinking === undefined ? "text" : "thinking", text: "" });
    part.text += delta.content ?? delta.thinking ?? "";
    Object.assign(part, delta.part);
    showPart(answer, delta.index, part);
  }
}

// Conversation --------------------------------------------------------------------------------------------------------

function newAnswer() {
  const node = $("log").appendChild(el("div", { class: "message assistant wait" }));
  node.scrollIntoView({ block: "nearest" });
  return { node, parts: [], calls: [], nodes: [], usage: null, began: performance.now() };
}

function showPart(answer, index, part) {
  if (!answer.nodes[index]) {
    const node = el("span");
    answer.nodes[index] = node;
    answer.node.append(part.type === "thinking" ? el("details", {}, el("summary", {}, "Thinking"), node) : node);
  }
  put(answer.nodes[index], part.text || "");
  answer.node.scrollIntoView({ block: "nearest" });
}

function finish(answer) {
  answer.node.classList.remove("wait");
  const content = answer.parts.filter(Boolean);
  const message = { role: "assistant", content };
  if (answer.calls.length) message.tool_calls = answer.calls;
  if (!content.length) {
    answer.node.remove();
    if (!answer.calls.length) return;
    delete message.content;
  }
  messages.push(message);
  if (answer.calls.length) showCalls(answer.calls);
}

/** A form for each tool call; when all have a result, the chat continues. */
function showCalls(calls) {
  const results = new Map();
  for (const call of calls) {
    const field = el("input", { value: '"at half past four"', spellcheck: false, ariaLabel: `Result of ${call.function.name}`, class: "code" });
    const sendResult = (event) => {
      event.preventDefault();
      form.querySelectorAll("input, button").forEach((node) => (node.disabled = true));
      results.set(call.id, valueOf(field.value));
      if (results.size < calls.length) return;
      for (const { id } of calls) messages.push({ role: "tool", tool_call_id: id, content: results.get(id) });
      ask();
    };
    const form = el("form", { class: "message tool", onsubmit: sendResult },
      el("span", {}, el("b", {}, call.function.name), el("span", { class: "soft" }, " is called")),
      el("pre", {}, JSON.stringify(call.function.arguments, null, 2)),
      el("div", { class: "row" }, el("div", {}, field), el("button", {}, "Send result")));
    $("log").append(form);
    form.scrollIntoView({ block: "nearest" });
    field.focus();
  }
}

function valueOf(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function showError(text) {
  $("log").append(el("div", { class: "message error", role: "alert" }, text));
}

function busy(isBusy) {
  $("send").disabled = isBusy;
  $("stop").hidden = !isBusy;
  $("log").ariaBusy = isBusy;
  if (!isBusy && document.activeElement === document.body) $("prompt").focus();
}

// Details -------------------------------------------------------------------------------------------------------------

function showEvent(text, ms) {
  const list = $("events"), number = Number(list.dataset.count || 0) + 1;
  list.dataset.count = number;
  put($("events-count"), String(number));
  if (number <= MAX_EVENTS) list.append(`${String(Math.round(ms)).padStart(6)} ms  ${text}\n`);
}

async function explain(body, headers) {
  const { targets } = await api("explain", body, headers);
  $("wire").replaceChildren(...targets.map((target, i) => {
    const lines = target.request ? [target.request, ...Object.entries(target.headers).map((pair) => pair.join(": ")), "", JSON.stringify(target.body, null, 2)] : [];
    return el("details", { class: "wire", open: i === 0, "data-target": target.target },
      el("summary", {}, el("b", {}, target.target), el("span", { class: "outcome soft" })),
      target.reason ? el("p", { class: "soft" }, target.reason) : null,
      ...target.notices.map((notice) => el("p", { class: "soft" }, `${notice.kind} ${notice.what}: ${notice.why}`)),
      lines.length ? el("pre", { tabIndex: 0, ariaLabel: `Request to ${target.target}` }, lines.join("\n")) : null);
  }));
}

async function showReceipt(id, answer, model, ms) {
  const row = await showOutcomes((each) => each.id === id);
  const usage = answer.usage ? `, ${count(answer.usage.prompt_tokens)} → ${count(answer.usage.completion_tokens)} tokens` : "";
  const at = row ? ` at ${clock(row.started_at)}` : "";
  put($("receipt"), `${row?.target || model} answered${at} in ${seconds(ms / 1000)}${usage}.`);
}

/** Show the outcome of each attempt of the request that matches. */
async function showOutcomes(matches) {
  const { requests } = await api("requests").catch(() => ({ requests: [] }));
  const row = requests.find(matches);
  for (const attempt of row?.attempt_details || []) {
    const item = [...$("wire").children].find((node) => node.dataset.target === attempt.target);
    if (!item) continue;
    const node = item.querySelector(".outcome");
    node.className = `outcome ${attempt.outcome}`;
    put(node, [attempt.outcome, attempt.error].filter(Boolean).join(" · "));
  }
  return row;
}

// Start ---------------------------------------------------------------------------------------------------------------

function sendPrompt() {
  const text = $("prompt").value.trim();
  if ((!text && !image) || running) return;
  const node = el("div", { class: "message user" });
  let content = text;
  if (image) {
    node.append(el("img", { src: image.url, alt: image.name }));
    content = [{ type: "image", mime: image.mime, data: image.url.split(",")[1] }, ...(text ? [{ type: "text", text }] : [])];
  }
  node.append(text);
  $("log").append(node);
  messages.push({ role: "user", content });
  $("prompt").value = "";
  attach(null);
  ask();
}

function attach(file) {
  image = file;
  put($("image-name"), file ? file.name : "");
  if (!file) $("image").value = "";
}

$("tool").value = JSON.stringify(TOOL, null, 2);
$("chat-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sendPrompt();
});
$("prompt").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  sendPrompt();
});
$("stop").addEventListener("click", () => running?.abort());
$("new-chat").addEventListener("click", () => {
  running?.abort();
  messages = [];
  ids = null;
  attach(null);
  for (const id of ["log", "wire", "events"]) $(id).replaceChildren();
  $("prompt").focus();
});
$("image").addEventListener("change", () => {
  const file = $("image").files[0];
  if (!file) return attach(null);
  const reader = new FileReader();
  reader.onload = () => attach({ url: reader.result, mime: file.type, name: file.name });
  reader.readAsDataURL(file);
});
