// A chat by the gateway's own native dialect, with what went over the wire beside it.

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
const MOST_EVENTS = 2000;

let messages = [], ids = null, image = null, leaving = null;

export function offer(names) {
  const list = $("models"), signature = names.join();
  if (list.dataset.signature === signature) return;
  list.dataset.signature = signature;
  list.replaceChildren(...names.map((name) => el("option", { value: name })));
  if (!$("model").value) $("model").value = names[0] || "";
}

// What is asked -------------------------------------------------------------------------------------------------------

function asked() {
  const body = { model: $("model").value.trim(), stream: true, messages };
  if ($("system").value.trim()) body.messages = [{ role: "system", content: $("system").value }, ...messages];
  if ($("max-tokens").value) body.max_tokens = Number($("max-tokens").value);
  if ($("temperature").value) body.temperature = Number($("temperature").value);
  if ($("with-tool").checked) {
    body.tools = [JSON.parse($("tool").value)];
    const answered = messages.at(-1)?.role === "tool";
    body.tool_choice = answered && $("choice").value === "required" ? "auto" : $("choice").value;
  }
  return body;
}

async function ask() {
  let body;
  try {
    body = asked();
  } catch (error) {
    return fault(`the tool is not JSON: ${error.message}`);
  }
  leaving = new AbortController();
  busy(true);
  const said = answer(), began = performance.now();
  const headers = ids ? { [IDS]: ids } : {};
  const explained = explain(body, headers).catch((error) => put($("receipt"), error.message));
  try {
    const reply = await call("native/v1/chat/completions", body, { signal: leaving.signal, headers });
    ids = reply.headers.get(IDS) || ids;
    put($("receipt"), `Asked ${body.model}; ${reply.headers.get("x-dragoman-target") || "somebody"} answers.`);
    await read(reply, said);
    finish(said);
    await explained;
    await receipt(reply.headers.get("x-request-id"), said, performance.now() - began);
  } catch (error) {
    said.node.classList.remove("wait");
    if (!said.parts.length) said.node.remove();
    if (error.name !== "AbortError") fault(error.message);
    if (said.parts.length) finish(said);
    await explained;
    const row = await outcomes((each) => each.moment * 1000 >= performance.timeOrigin + began - 1000);
    put($("receipt"), `${row?.target || body.model} ${error.name === "AbortError" ? "was stopped" : "failed"}.`);
  } finally {
    busy(false);
    leaving = null;
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
      event(piece, performance.now() - began);
      if (piece.startsWith("data: {")) yield JSON.parse(piece.slice(6));
    }
  }
}

async function read(reply, said) {
  $("events").textContent = "";
  $("events").dataset.count = 0;
  for await (const told of lines(reply, said.began)) {
    if (told.error) throw new Error(told.error.message);
    const delta = told.choices[0].delta;
    if (told.usage) said.usage = told.usage;
    for (const made of delta.tool_calls || []) said.calls.push(made);
    if (delta.index === undefined) continue;
    const part = (said.parts[delta.index] ??= { type: delta.thinking === undefined ? "text" : "thinking", text: "" });
    part.text += delta.content ?? delta.thinking ?? "";
    Object.assign(part, delta.part);
    write(said, delta.index, part);
  }
}

// What is shown -------------------------------------------------------------------------------------------------------

function answer() {
  const node = $("log").appendChild(el("div", { class: "said assistant wait" }));
  node.scrollIntoView({ block: "nearest" });
  return { node, parts: [], calls: [], places: [], usage: null, began: performance.now() };
}

function write(said, index, part) {
  if (!said.places[index]) {
    const place = el("span");
    said.places[index] = place;
    said.node.append(part.type === "thinking" ? el("details", {}, el("summary", {}, "Thinking"), place) : place);
  }
  put(said.places[index], part.text || "");
  said.node.scrollIntoView({ block: "nearest" });
}

function finish(said) {
  said.node.classList.remove("wait");
  const content = said.parts.filter(Boolean);
  const message = { role: "assistant", content };
  if (said.calls.length) message.tool_calls = said.calls;
  if (!content.length) {
    said.node.remove();
    if (!said.calls.length) return;
    delete message.content;
  }
  messages.push(message);
  if (said.calls.length) answerCalls(said.calls);
}

/** A card for each call; when all have their results, the chat goes on. */
function answerCalls(calls) {
  const results = new Map();
  for (const made of calls) {
    const field = el("input", { value: '"at half past four"', spellcheck: false, ariaLabel: `Result of ${made.function.name}`, class: "code" });
    const send = (event) => {
      event.preventDefault();
      form.querySelectorAll("input, button").forEach((node) => (node.disabled = true));
      results.set(made.id, valueOf(field.value));
      if (results.size < calls.length) return;
      for (const { id } of calls) messages.push({ role: "tool", tool_call_id: id, content: results.get(id) });
      ask();
    };
    const form = el("form", { class: "said tool", onsubmit: send },
      el("span", {}, el("b", {}, made.function.name), el("span", { class: "soft" }, " is called")),
      el("pre", {}, JSON.stringify(made.function.arguments, null, 2)),
      el("div", { class: "row" }, el("div", {}, field), el("button", {}, "Answer")));
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

function fault(text) {
  $("log").append(el("div", { class: "said fault", role: "alert" }, text));
}

function busy(is) {
  $("send").disabled = is;
  $("stop").hidden = !is;
  $("log").ariaBusy = is;
  if (!is && document.activeElement === document.body) $("prompt").focus();
}

// Behind it -----------------------------------------------------------------------------------------------------------

function event(text, ms) {
  const place = $("events"), number = Number(place.dataset.count || 0) + 1;
  place.dataset.count = number;
  put($("events-count"), String(number));
  if (number <= MOST_EVENTS) place.append(`${String(Math.round(ms)).padStart(6)} ms  ${text}\n`);
}

async function explain(body, headers) {
  const { targets } = await api("explain", body, headers);
  $("wire").replaceChildren(...targets.map((told, i) => {
    const lines = told.request ? [told.request, ...Object.entries(told.headers).map((pair) => pair.join(": ")), "", JSON.stringify(told.body, null, 2)] : [];
    return el("details", { class: "wire", open: i === 0, "data-target": told.target },
      el("summary", {}, el("b", {}, told.target), el("span", { class: "outcome soft" })),
      told.reason ? el("p", { class: "soft" }, told.reason) : null,
      ...told.notices.map((notice) => el("p", { class: "soft" }, `${notice.kind} ${notice.what}: ${notice.why}`)),
      lines.length ? el("pre", { tabIndex: 0, ariaLabel: `Request to ${told.target}` }, lines.join("\n")) : null);
  }));
}

async function receipt(id, said, ms) {
  const row = await outcomes((each) => each.id === id);
  const usage = said.usage ? `, ${count(said.usage.prompt_tokens)} → ${count(said.usage.completion_tokens)} tokens` : "";
  const at = row ? ` at ${clock(row.moment)}` : "";
  put($("receipt"), `${row?.target || "somebody"} answered${at} in ${seconds(ms / 1000)}${usage}.`);
}

/** Say beside each target how it went. */
async function outcomes(is) {
  const { requests } = await api("requests").catch(() => ({ requests: [] }));
  const row = requests.find(is);
  for (const trial of row?.attempt_details || []) {
    const place = [...$("wire").children].find((node) => node.dataset.target === trial.target);
    if (!place) continue;
    const node = place.querySelector(".outcome");
    node.className = `outcome ${trial.outcome}`;
    put(node, [trial.outcome, trial.why].filter(Boolean).join(" · "));
  }
  return row;
}

// Beginning -----------------------------------------------------------------------------------------------------------

function say() {
  const text = $("prompt").value.trim();
  if ((!text && !image) || leaving) return;
  const node = el("div", { class: "said user" });
  let content = text;
  if (image) {
    node.append(el("img", { src: image.url, alt: image.name }));
    content = [{ type: "image", mime: image.mime, data: image.url.split(",")[1] }, ...(text ? [{ type: "text", text }] : [])];
  }
  node.append(text);
  $("log").append(node);
  messages.push({ role: "user", content });
  $("prompt").value = "";
  choose(null);
  ask();
}

function choose(told) {
  image = told;
  put($("image-name"), told ? told.name : "");
  if (!told) $("image").value = "";
}

$("tool").value = JSON.stringify(TOOL, null, 2);
$("say").addEventListener("submit", (event) => {
  event.preventDefault();
  say();
});
$("prompt").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  say();
});
$("stop").addEventListener("click", () => leaving?.abort());
$("fresh").addEventListener("click", () => {
  leaving?.abort();
  messages = [];
  ids = null;
  choose(null);
  for (const id of ["log", "wire", "events"]) $(id).replaceChildren();
  $("prompt").focus();
});
$("image").addEventListener("change", () => {
  const file = $("image").files[0];
  if (!file) return choose(null);
  const reader = new FileReader();
  reader.onload = () => choose({ url: reader.result, mime: file.type, name: file.name });
  reader.readAsDataURL(file);
});
