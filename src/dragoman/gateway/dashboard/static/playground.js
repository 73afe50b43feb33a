// A chat over the gateway's native dialect, with one model or two side by side, next to the HTTP requests that it causes.

import { $, api, call, clock, copy, count, el, money, put, seconds } from "./parts.js";
import { markdown } from "./markdown.js";
import { FORMS } from "./snippets.js";

const TOOL = {
  type: "function",
  function: {
    name: "tide",
    description: "When the tide turns in a port.",
    parameters: { type: "object", properties: { port: { type: "string" } }, required: ["port"] },
  },
};
const IDS = "x-dragoman-tool-ids";
const MAX_EVENTS = 2000, MAX_LIVE_MARKDOWN = 20000, LIVE_MARKDOWN = 100;

/** One conversation with one model; the second one is shown if two models are compared. */
const lanes = ["", "-b"].map((suffix) => ({ suffix, messages: [], ids: null, running: null }));
const node = (lane, name) => $(name + lane.suffix);
const isComparing = () => $("compare").checked;
const shownLanes = () => (isComparing() ? lanes : lanes.slice(0, 1));
const isBusy = () => lanes.some((lane) => lane.running);

let images = [];

export const title = "Playground", role = null, id = "playground", interval = 15000;

export async function refresh({ me }) {
  const [models, snapshot] = await Promise.all([
    call("v1/models").then((response) => response.json()).catch(() => ({ data: [] })),
    me.role === "admin" || me.role === "viewer" ? api("snapshot") : { names: [], targets: [] },
  ]);
  const names = [...snapshot.names, ...snapshot.targets].map((each) => each.name);
  offerModels([...new Set([...names, ...models.data.map((model) => model.id)])]);
}

function offerModels(names) {
  const list = $("model-names"), signature = names.join();
  if (list.dataset.signature === signature) return;
  list.dataset.signature = signature;
  list.replaceChildren(...names.map((name) => el("option", { value: name })));
  lanes.forEach((lane, i) => {
    if (!node(lane, "model").value) node(lane, "model").value = names[i] || names[0] || "";
  });
}

// Requests ------------------------------------------------------------------------------------------------------------

/** The request of a lane; `system` is a field of its own. Raises an error if the tool is not JSON. */
function question(lane) {
  const request = { model: node(lane, "model").value.trim(), messages: lane.messages };
  if ($("system-prompt").value.trim()) request.system = $("system-prompt").value;
  if ($("max-tokens").value) request.max_tokens = Number($("max-tokens").value);
  if ($("temperature").value) request.temperature = Number($("temperature").value);
  if ($("with-tool").checked) {
    request.tools = [JSON.parse($("tool").value)];
    const hasResults = lane.messages.at(-1)?.role === "tool";
    request.tool_choice = hasResults && $("choice").value === "required" ? "auto" : $("choice").value;
  }
  return request;
}

function requestBody(lane) {
  const { system, messages, ...rest } = question(lane);
  return { ...rest, stream: true, messages: system ? [{ role: "system", content: system }, ...messages] : messages };
}

async function ask(lane) {
  let body;
  try {
    body = requestBody(lane);
  } catch (error) {
    return showError(lane, `tool must be JSON: ${error.message}`);
  }
  lane.running = new AbortController();
  busy();
  const answer = newAnswer(lane), began = performance.now();
  const headers = lane.ids ? { [IDS]: lane.ids } : {};
  const explanation = explain(lane, body, headers).catch((error) => put(node(lane, "receipt"), error.message));
  let requestId = null;
  try {
    const reply = await call("native/v1/chat/completions", body, { signal: lane.running.signal, headers });
    requestId = reply.headers.get("x-request-id");
    lane.ids = reply.headers.get(IDS) || lane.ids;
    put(node(lane, "receipt"), `${reply.headers.get("x-dragoman-target") || body.model} is answering.`);
    await read(lane, reply, answer);
    finish(lane, answer);
    await explanation;
    await showReceipt(lane, requestId, answer, body.model, performance.now() - began);
  } catch (error) {
    answer.node.classList.remove("wait");
    if (!answer.parts.length) answer.node.remove();
    if (error.name !== "AbortError") showError(lane, error.message);
    if (answer.parts.length) finish(lane, answer);
    await explanation;
    const row = await showOutcomes(lane, requestId || error.id);
    put(node(lane, "receipt"), `${row?.target || body.model} ${error.name === "AbortError" ? "was stopped" : "failed"}.`);
  } finally {
    lane.running = null;
    busy();
    showSnippet();
  }
}

async function* lines(lane, reply, began) {
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const pieces = (rest + value).split("\n");
    rest = pieces.pop();
    for (const piece of pieces.filter(Boolean)) {
      showEvent(lane, piece, performance.now() - began);
      if (piece.startsWith("data: {")) yield JSON.parse(piece.slice(6));
    }
  }
}

async function read(lane, reply, answer) {
  for await (const chunk of lines(lane, reply, answer.began)) {
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

function newAnswer(lane) {
  const shown = node(lane, "log").appendChild(el("div", { class: "message assistant wait" }));
  if (isComparing()) shown.append(el("div", { class: "by" }, node(lane, "model").value.trim()));
  shown.scrollIntoView({ block: "nearest" });
  return { node: shown, parts: [], calls: [], nodes: [], usage: null, began: performance.now(), timer: null };
}

function showPart(answer, index, part) {
  if (!answer.nodes[index]) {
    answer.nodes[index] = el("div", { class: "text" });
    answer.node.append(part.type === "thinking" ? el("details", {}, el("summary", {}, "Thinking"), answer.nodes[index]) : answer.nodes[index]);
  }
  if (part.type === "text") answer.timer ??= setTimeout(() => drawParts(answer, MAX_LIVE_MARKDOWN), LIVE_MARKDOWN);
  else drawPart(answer.nodes[index], part);
  answer.node.scrollIntoView({ block: "nearest" });
}

function drawPart(shown, part) {
  if (part.type === "text") shown.replaceChildren(...markdown(part.text || ""));
  else if (part.type === "image" && part.data) shown.replaceChildren(el("img", { src: `data:${part.mime};base64,${part.data}`, alt: "Image of the answer" }));
  else put(shown, part.text || "");
}

/** Markdown is drawn again only now and then while an answer arrives, and a long one only at its end. */
function drawParts(answer, longest) {
  clearTimeout(answer.timer);
  answer.timer = null;
  answer.parts.forEach((part, index) => (part.text || "").length <= longest && drawPart(answer.nodes[index], part));
}

function finish(lane, answer) {
  answer.node.classList.remove("wait");
  drawParts(answer, Infinity);
  const content = answer.parts.filter(Boolean);
  const message = { role: "assistant", content };
  if (answer.calls.length) message.tool_calls = answer.calls;
  if (!content.length) {
    answer.node.remove();
    if (!answer.calls.length) return;
    delete message.content;
  }
  lane.messages.push(message);
  if (answer.calls.length) showCalls(lane, answer.calls);
}

/** A form for each tool call; when all have a result, the chat continues. */
function showCalls(lane, calls) {
  const results = new Map();
  for (const call of calls) {
    const field = el("input", { value: '"at half past four"', spellcheck: false, ariaLabel: `Result of ${call.function.name}`, class: "code" });
    const sendResult = (event) => {
      event.preventDefault();
      form.querySelectorAll("input, button").forEach((each) => (each.disabled = true));
      results.set(call.id, valueOf(field.value));
      if (results.size < calls.length) return;
      for (const { id } of calls) lane.messages.push({ role: "tool", tool_call_id: id, content: results.get(id) });
      ask(lane);
    };
    const form = el("form", { class: "message tool", onsubmit: sendResult },
      el("span", {}, el("b", {}, call.function.name), el("span", { class: "soft" }, " is called")),
      el("pre", {}, JSON.stringify(call.function.arguments, null, 2)),
      el("div", { class: "row" }, el("div", {}, field), el("button", {}, "Send result")));
    node(lane, "log").append(form);
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

function showError(lane, text) {
  node(lane, "log").append(el("div", { class: "message error", role: "alert" }, text));
}

function busy() {
  $("send").disabled = isBusy();
  $("stop").hidden = !isBusy();
  for (const lane of lanes) node(lane, "log").ariaBusy = Boolean(lane.running);
  if (!isBusy() && document.activeElement === document.body) $("prompt").focus();
}

// Details -------------------------------------------------------------------------------------------------------------

function showEvent(lane, text, ms) {
  const list = $("events"), number = Number(list.dataset.count || 0) + 1;
  list.dataset.count = number;
  put($("events-count"), String(number));
  const name = isComparing() ? `${lane.suffix ? "B" : "A"} ` : "";
  if (number <= MAX_EVENTS) list.append(`${name}${String(Math.round(ms)).padStart(6)} ms  ${text}\n`);
}

async function explain(lane, body, headers) {
  const { targets } = await api("explain", body, { headers });
  node(lane, "wire").replaceChildren(...targets.map((target, i) => {
    const lines = target.request ? [target.request, ...Object.entries(target.headers).map((pair) => pair.join(": ")), "", JSON.stringify(target.body, null, 2)] : [];
    return el("details", { class: "wire", open: i === 0, "data-target": target.target },
      el("summary", {}, el("b", {}, target.target), el("span", { class: "outcome soft" })),
      target.reason ? el("p", { class: "soft" }, target.reason) : null,
      ...target.notices.map((notice) => el("p", { class: "soft" }, `${notice.kind} ${notice.what}: ${notice.why}`)),
      lines.length ? el("pre", { tabIndex: 0, ariaLabel: `Request to ${target.target}` }, lines.join("\n")) : null);
  }));
}

async function showReceipt(lane, requestId, answer, model, ms) {
  const row = await showOutcomes(lane, requestId);
  const usage = answer.usage ? `, ${count(answer.usage.prompt_tokens)} → ${count(answer.usage.completion_tokens)} tokens` : "";
  const cost = row?.cost ? `, ${money(row.cost)}` : "", at = row ? ` at ${clock(row.started_at)}` : "";
  const cached = row?.cache === "hit" ? ", from the response cache" : "";
  put(node(lane, "receipt"), `${row?.target || model} answered${at} in ${seconds(ms / 1000)}${usage}${cost}${cached}.`);
}

/** Show the outcome of each attempt of a request. */
async function showOutcomes(lane, requestId) {
  const row = requestId ? await api(`usage/requests/${encodeURIComponent(requestId)}`).catch(() => null) : null;
  for (const attempt of row?.attempt_details || []) {
    const item = [...node(lane, "wire").children].find((each) => each.dataset.target === attempt.target);
    if (!item) continue;
    const outcome = item.querySelector(".outcome");
    outcome.className = `outcome ${attempt.outcome}`;
    put(outcome, [attempt.outcome, attempt.error].filter(Boolean).join(" · "));
  }
  return row;
}

function showSnippet() {
  if (!$("snippet-block").open) return;
  const lane = lanes[0], prompt = $("prompt").value.trim() || "Hello!";
  let request;
  try {
    request = question(lane);
  } catch (error) {
    return put($("snippet"), `tool must be JSON: ${error.message}`);
  }
  const last = request.messages.findLastIndex((message) => message.role === "user");
  const messages = last < 0 ? [{ role: "user", content: prompt }] : request.messages.slice(0, last + 1);
  return put($("snippet"), FORMS[$("snippet-form").value]({ ...request, messages }));
}

// Start ---------------------------------------------------------------------------------------------------------------

function sendPrompt() {
  const text = $("prompt").value.trim();
  if ((!text && !images.length) || isBusy()) return;
  let content = text;
  if (images.length) content = [...images.map(({ mime, url }) => ({ type: "image", mime, data: url.split(",")[1] })), ...(text ? [{ type: "text", text }] : [])];
  $("events").textContent = "";
  $("events").dataset.count = 0;
  for (const lane of shownLanes()) {
    node(lane, "log").append(el("div", { class: "message user" }, images.map(({ url, name }) => el("img", { src: url, alt: name })), text));
    lane.messages.push({ role: "user", content });
  }
  $("prompt").value = "";
  attach([]);
  for (const lane of shownLanes()) ask(lane);
}

async function attach(files) {
  const read = (file) => new Promise((resolve) => {
    const reader = new FileReader();
    reader.onload = () => resolve({ url: reader.result, mime: file.type, name: file.name });
    reader.readAsDataURL(file);
  });
  images = files.length ? [...images, ...(await Promise.all([...files].filter((file) => file.type.startsWith("image/")).map(read)))] : [];
  put($("image-name"), images.map(({ name }) => name).join(", "));
  if (!files.length) $("image").value = "";
}

function newChat() {
  for (const lane of lanes) {
    lane.running?.abort();
    Object.assign(lane, { messages: [], ids: null });
    for (const name of ["log", "wire", "receipt"]) node(lane, name).replaceChildren();
  }
  $("events").replaceChildren();
  attach([]);
  showSnippet();
  $("prompt").focus();
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
$("prompt").addEventListener("paste", (event) => event.clipboardData.files.length && attach(event.clipboardData.files));
$("stop").addEventListener("click", () => lanes.forEach((lane) => lane.running?.abort()));
$("new-chat").addEventListener("click", newChat);
$("image").addEventListener("change", () => attach($("image").files));
$("compare").addEventListener("change", () => {
  $("talk").classList.toggle("comparing", isComparing());
  for (const name of ["lane-b", "model-b-block", "receipt-b", "wire-b"]) $(name).hidden = !isComparing();
  newChat();
});
$("snippet-form").replaceChildren(...Object.keys(FORMS).map((name) => el("option", {}, name)));
$("snippet-form").addEventListener("change", showSnippet);
$("snippet-block").addEventListener("toggle", showSnippet);
$("snippet-copy").addEventListener("click", () => copy($("snippet").textContent, $("snippet-copy")));
