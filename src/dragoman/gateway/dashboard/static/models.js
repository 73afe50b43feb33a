// Aliases, tiers and providers: what the config file has, and what was changed at run time.

import { $, api, el, named, post, put } from "./parts.js";
import { action, confirm, edit } from "./forms.js";

const ORDERS = ["in_order", "weighted", "least_busy", "fastest", "cheapest"];
const KINDS = {
  aliases: {
    one: "alias", text: "Another name for a target or a chain.",
    fields: (table) => [{ name: "spec", label: "Stands for", value: table.spec || "", required: true, wide: true, hint: "a model, or several in the order of fallbacks: groq/llama, openai/gpt-5" }],
    body: (values) => ({ spec: values.spec }),
  },
  tiers: {
    one: "tier", text: "Several targets, and how one of them is chosen.",
    fields: (table) => {
      const { models = {}, order = Array.isArray(models) ? "in_order" : "weighted", ...rest } = table;
      const lines = Array.isArray(models) ? models : Object.entries(models).map(([model, cost]) => `${model} ${cost}`);
      return [{ name: "models", label: "Targets", type: "textarea", value: lines.join("\n"), required: true, wide: true, hint: "one per line; a number after it is its cost" },
        { name: "order", label: "Order", value: order, options: ORDERS.map((each) => [each, each.replace("_", " ")]) }, ...others(rest)];
    },
    body: (values) => {
      const lines = values.models.split("\n").map((line) => line.trim().split(/\s+/)).filter(([model]) => model);
      const hasCosts = lines.some(([, cost]) => cost);
      const models = hasCosts ? Object.fromEntries(lines.map(([model, cost]) => [model, Number(cost ?? 1)])) : lines.map(([model]) => model);
      return { table: { models, order: values.order, ...parse(values.others) } };
    },
  },
  providers: {
    one: "provider", text: "Servers with models. A secret is never shown again: (set) keeps it.",
    fields: ({ like = "", base_url = "", api_key = "", ...rest }) => [
      { name: "like", label: "Like", value: like, placeholder: "vllm, openai …", hint: "a known provider or server; empty if the name is one" },
      { name: "base_url", label: "Base URL", value: base_url },
      { name: "api_key", label: "API key", type: "password", value: api_key, hint: "or ${NAME} for an environment variable", wide: true }, ...others(rest),
    ],
    body: (values) => {
      const table = { like: values.like, base_url: values.base_url, api_key: values.api_key };
      return { table: { ...Object.fromEntries(Object.entries(table).filter(([, value]) => value)), ...parse(values.others) } };
    },
  },
};

const others = (rest) => [{ name: "others", label: "Other settings, as JSON", type: "textarea", rows: 3, wide: true, value: Object.keys(rest).length ? JSON.stringify(rest, null, 2) : "" }];

function parse(text) {
  if (!text) return {};
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`the other settings must be a JSON object: ${error.message}`);
  }
}

let me = null, signature = "";

export const title = "Models", role = "viewer", id = "models", interval = 5000;

export function mount(root) {
  root.append(el("p", { id: "table-problems", role: "alert" }), ...Object.entries(KINDS).map(([kind, { one, text }]) => el("div", {},
    el("div", { class: "head" }, el("h2", {}, kind[0].toUpperCase() + kind.slice(1)), el("button", { id: `new-${one}`, onclick: () => change(kind, null) }, `New ${one}`)),
    el("p", { class: "soft" }, text), el("ul", { id: kind, class: "holders" }))));
}

export async function refresh(context) {
  me = context.me;
  const lists = await Promise.all(Object.keys(KINDS).map((kind) => api(kind)));
  if (signature === JSON.stringify([lists, me.role])) return;
  signature = JSON.stringify([lists, me.role]);
  put($("table-problems"), [...new Set(lists.flatMap((each) => each.problems))].join("; "));
  Object.keys(KINDS).forEach((kind, i) => {
    $(`new-${KINDS[kind].one}`).hidden = me.role !== "admin";
    $(kind).replaceChildren(...lists[i].items.map((item) => card(kind, item)), ...(lists[i].items.length ? [] : [el("li", { class: "soft" }, "none yet")]));
  });
}

function card(kind, item) {
  const { name, source, table } = item, isRemoved = source === "removed";
  const details = kind === "providers" ? [item.wire, table.base_url, item.ready === false && "no API key"] : [table.order?.replace("_", " ")];
  const buttons = me.role !== "admin" ? [] : [
    isRemoved ? null : action("Edit", name, () => change(kind, item)),
    isRemoved || source === "store over file" ? action("Revert", name, async () => {
      await post(named(kind, name, "revert"));
      await refresh({ me });
    }) : null,
    isRemoved || source === "environment" ? null : action("Delete", name, () => remove(kind, name), { danger: true }),
  ];
  return el("li", { class: "card holder", "data-name": name },
    el("h3", {}, name, el("span", { class: `badge ${source}` }, source)),
    el("p", { class: "chain" }, item.targets.map((target) => el("span", { class: "link" }, target))),
    item.problem ? el("p", { role: "alert" }, item.problem) : null,
    el("p", { class: "soft" }, details.filter(Boolean).join(" · ")), el("div", { class: "actions" }, buttons.filter(Boolean)));
}

async function change(kind, item) {
  const { one, fields, body } = KINDS[kind];
  const all = [...(item ? [] : [{ name: "name", label: "Name", required: true, wide: true }]), ...fields(item?.table || {})];
  const submit = (values) => api(named(kind, item?.name || values.name), body(values), { method: "PUT" });
  if (await edit(item ? `${one} ${item.name}` : `New ${one}`, all, { submit })) await refresh({ me });
}

async function remove(kind, name) {
  const text = "Requests for it are refused at once. One of the config file can be reverted.";
  if (await confirm(`Delete the ${KINDS[kind].one} ${name}?`, text, "Delete", () => api(named(kind, name), undefined, { method: "DELETE" }))) await refresh({ me });
}
