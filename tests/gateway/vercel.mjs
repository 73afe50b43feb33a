// The Vercel AI SDK against a gateway: node vercel.mjs URL ANSWERS CALLS CUT, the last three
// models; says what it saw as JSON.
import { generateText, jsonSchema, Output, stepCountIs, streamText, tool } from "ai";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";

globalThis.AI_SDK_LOG_WARNINGS = false;
const [url, answers, calls, cut] = process.argv.slice(2);
const dialects = {
  openai: createOpenAICompatible({ name: "gateway", baseURL: `${url}/v1`, supportsStructuredOutputs: true }),
  anthropic: createAnthropic({ baseURL: `${url}/v1`, apiKey: "sk-client" }),
};
const place = jsonSchema({
  type: "object",
  properties: { place: { type: "string" } },
  required: ["place"],
  additionalProperties: false,
});

async function streamed(model) {
  let text = "";
  let error = null;
  for await (const part of streamText({ model, prompt: "hello", maxRetries: 0, onError() {} }).fullStream) {
    if (part.type === "text-delta") text += part.text;
    if (part.type === "error") error = String(part.error?.message ?? part.error);
  }
  return { text, error };
}

const seen = {};
for (const [name, dialect] of Object.entries(dialects)) {
  const asked = [];
  const tide = tool({
    description: "The tide.",
    inputSchema: place,
    execute: async (told) => {
      asked.push(told);
      return "at six";
    },
  });
  const turns = { model: dialect(calls), prompt: "When?", tools: { tide }, stopWhen: stepCountIs(3), maxRetries: 0 };
  const where = { model: dialect(calls), prompt: "Where?", output: Output.object({ schema: place }), maxRetries: 0 };
  seen[name] = {
    text: (await generateText({ model: dialect(answers), prompt: "hello", maxRetries: 0 })).text,
    stream: await streamed(dialect(answers)),
    tools: { text: (await generateText(turns)).text, asked },
    structured: (await generateText(where)).output,
    cut: await streamed(dialect(`${cut}-${name}`)),
    refused: await generateText({ model: dialect("nix/da"), prompt: "hello", maxRetries: 0 }).then(
      () => null,
      (error) => error.statusCode,
    ),
  };
}
console.log(JSON.stringify(seen));
