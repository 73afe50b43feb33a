// A chat of the playground as code: the same request for curl and Python, in the dialects of the gateway.

const text = (content) => (typeof content === "string" ? content : content.filter((part) => part.type === "text").map((part) => part.text).join(""));
const parts = (content, convert) => (typeof content === "string" ? content : content.filter((part) => part.type === "text" || part.type === "image").map(convert));
const args = (call) => call.function.arguments;
const result = (message) => (typeof message.content === "string" ? message.content : JSON.stringify(message.content));

const without = (value) => Object.fromEntries(Object.entries(value).filter(([, each]) => each !== undefined));

function openai({ model, messages, system, max_tokens, temperature, tools, tool_choice }) {
  const convert = (part) => (part.type === "text" ? { type: "text", text: part.text } : { type: "image_url", image_url: { url: `data:${part.mime};base64,${part.data}` } });
  const turns = messages.map((message) => {
    if (message.role === "tool") return { role: "tool", tool_call_id: message.tool_call_id, content: result(message) };
    if (message.role === "user") return { role: "user", content: parts(message.content, convert) };
    const calls = message.tool_calls?.map((call) => ({ id: call.id, type: "function", function: { name: call.function.name, arguments: JSON.stringify(args(call)) } }));
    return without({ role: "assistant", content: message.content ? text(message.content) : null, tool_calls: calls });
  });
  return without({ model, messages: [...(system ? [{ role: "system", content: system }] : []), ...turns], max_tokens, temperature, tools, tool_choice });
}

function anthropic({ model, messages, system, max_tokens = 1024, temperature, tools, tool_choice }) {
  const convert = (part) => (part.type === "text" ? { type: "text", text: part.text } : { type: "image", source: { type: "base64", media_type: part.mime, data: part.data } });
  const turns = messages.map((message) => {
    if (message.role === "tool") return { role: "user", content: [{ type: "tool_result", tool_use_id: message.tool_call_id, content: result(message) }] };
    if (message.role === "user") return { role: "user", content: parts(message.content, convert) };
    const reply = message.content && text(message.content);
    const calls = (message.tool_calls || []).map((call) => ({ type: "tool_use", id: call.id, name: call.function.name, input: args(call) }));
    return { role: "assistant", content: calls.length ? [...(reply ? [{ type: "text", text: reply }] : []), ...calls] : reply };
  });
  const choice = { required: { type: "any" }, none: { type: "none" }, auto: { type: "auto" } }[tool_choice];
  return without({ model, max_tokens, system, messages: turns, temperature, tool_choice: choice,
    tools: tools?.map(({ function: tool }) => ({ name: tool.name, description: tool.description, input_schema: tool.parameters })) });
}

function google({ messages, system, max_tokens, temperature, tools, tool_choice }) {
  const convert = (part) => (part.type === "text" ? { text: part.text } : { inlineData: { mimeType: part.mime, data: part.data } });
  const names = new Map(messages.flatMap((message) => message.tool_calls || []).map((call) => [call.id, call.function.name]));
  const contents = messages.map((message) => {
    if (message.role === "tool") return { role: "user", parts: [{ functionResponse: { name: names.get(message.tool_call_id), response: { result: message.content } } }] };
    if (message.role === "user") return { role: "user", parts: typeof message.content === "string" ? [{ text: message.content }] : parts(message.content, convert) };
    const reply = message.content && text(message.content);
    return { role: "model", parts: [...(reply ? [{ text: reply }] : []), ...(message.tool_calls || []).map((call) => ({ functionCall: { name: call.function.name, args: args(call) } }))] };
  });
  const generationConfig = without({ maxOutputTokens: max_tokens, temperature });
  return without({ systemInstruction: system && { parts: [{ text: system }] }, contents, generationConfig: Object.keys(generationConfig).length ? generationConfig : undefined,
    tools: tools && [{ functionDeclarations: tools.map(({ function: tool }) => ({ name: tool.name, description: tool.description, parametersJsonSchema: tool.parameters })) }],
    toolConfig: tool_choice && { functionCallingConfig: { mode: { required: "ANY", none: "NONE", auto: "AUTO" }[tool_choice] } } });
}

function ollama(request) {
  const { max_tokens, temperature, system, messages, model, tools } = request;
  const turns = messages.map((message) => {
    if (message.role === "tool") return { role: "tool", content: result(message) };
    const images = typeof message.content === "string" ? [] : (message.content || []).filter((part) => part.type === "image").map((part) => part.data);
    const calls = message.tool_calls?.map((call) => ({ function: { name: call.function.name, arguments: args(call) } }));
    return without({ role: message.role, content: message.content ? text(message.content) : "", images: images.length ? images : undefined, tool_calls: calls });
  });
  const options = without({ num_predict: max_tokens, temperature });
  return without({ model, messages: [...(system ? [{ role: "system", content: system }] : []), ...turns], stream: false, tools, options: Object.keys(options).length ? options : undefined });
}

function responses({ model, messages, system, max_tokens, temperature, tools, tool_choice }) {
  const convert = (part) => (part.type === "text" ? { type: "input_text", text: part.text } : { type: "input_image", image_url: `data:${part.mime};base64,${part.data}` });
  const input = messages.flatMap((message) => {
    if (message.role === "tool") return [{ type: "function_call_output", call_id: message.tool_call_id, output: result(message) }];
    if (message.role === "user") return [{ role: "user", content: parts(message.content, convert) }];
    return [...(message.content ? [{ role: "assistant", content: text(message.content) }] : []),
      ...(message.tool_calls || []).map((call) => ({ type: "function_call", call_id: call.id, name: call.function.name, arguments: JSON.stringify(args(call)) }))];
  });
  return without({ model, instructions: system, input, max_output_tokens: max_tokens, temperature, tool_choice, tools: tools?.map(({ function: tool }) => ({ type: "function", ...tool })) });
}

// Code ----------------------------------------------------------------------------------------------------------------

const quoted = (value) => `'${JSON.stringify(value, null, 2).replaceAll("'", "'\\''")}'`;

function curl(path, headers, body) {
  return [`curl ${location.origin}${path} \\`, ...["content-type: application/json", ...headers].map((header) => `  -H "${header}" \\`), `  -d ${quoted(body)}`].join("\n");
}

/** A value as a literal of Python. */
export function python(value, indent = "") {
  const inner = `${indent}    `;
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value !== "object") return JSON.stringify(value);
  const items = Array.isArray(value) ? value.map((each) => python(each, inner)) : Object.entries(value).map(([name, each]) => `${JSON.stringify(name)}: ${python(each, inner)}`);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  const short = `${open}${items.join(", ")}${close}`;
  return short.length < 80 && !short.includes("\n") ? short : `${open}\n${items.map((item) => `${inner}${item},\n`).join("")}${indent}${close}`;
}

const keywords = (body) => Object.entries(body).map(([name, value]) => `    ${name}=${python(value, "    ")},\n`).join("");
const bearer = "authorization: Bearer $DRAGOMAN_KEY";

export const FORMS = {
  "curl · OpenAI": (request) => curl("/v1/chat/completions", [bearer], openai(request)),
  "curl · Responses": (request) => curl("/v1/responses", [bearer], responses(request)),
  "curl · Anthropic": (request) => curl("/v1/messages", ["x-api-key: $DRAGOMAN_KEY", "anthropic-version: 2023-06-01"], anthropic(request)),
  "curl · Gemini": (request) => curl(`/v1beta/models/${encodeURIComponent(request.model)}:generateContent`, ["x-goog-api-key: $DRAGOMAN_KEY"], google(request)),
  "curl · Ollama": (request) => curl("/api/chat", [bearer], ollama(request)),
  "Python · openai": (request) => `import os

from openai import OpenAI

client = OpenAI(base_url="${location.origin}/v1", api_key=os.environ["DRAGOMAN_KEY"])
response = client.chat.completions.create(
${keywords(openai(request))})
print(response.choices[0].message.content)
`,
  "Python · anthropic": (request) => `import os

from anthropic import Anthropic

client = Anthropic(base_url="${location.origin}", api_key=os.environ["DRAGOMAN_KEY"])
message = client.messages.create(
${keywords(anthropic(request))})
print(message.content)
`,
};
