// Aliases, tiers, pools and providers: what the config file has, and what was changed at run time.

import { $, api, el, named, post, put } from "./parts.js";
import { action, confirm, edit } from "./forms.js";

const ORDERS = ["in_order", "weighted", "least_busy", "fastest", "cheapest"];
const AFFINITIES = ["none", "conversation", "prefix"];
const MEMBERS = { targets: "targets, as provider/model", providers: "providers with the same models", api_keys: "API keys of one provider" };
const orders = (order) => ({ name: "order", label: "Order", value: order, options: ORDERS.map((each) => [each, each.replace("_", " ")]) });
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
      return [{ name: "models", label: "Targets", type: "textarea", value: lines(models).join("\n"), required: true, wide: true, hint: "one per line; a number after it is its cost" },
        orders(order), ...others(rest)];
    },
    body: (values) => ({ table: { models: members(values.models), order: values.order, ...parse(values.others) } }),
  },
  pools: {
    one: "pool", text: "Several keys or deployments of the same models behind one name, and how requests are shared between them.",
    fields: (table) => {
      const kind = Object.keys(MEMBERS).find((each) => each in table) || "targets";
      const { [kind]: list = [], order = "least_busy", affinity = "none", ...rest } = table;
      return [{ name: "kind", label: "Made of", value: kind, options: Object.entries(MEMBERS), wide: true },
        { name: "members", label: "Deployments", type: "textarea", value: lines(list).join("\n"), required: true, wide: true, hint: "one per line; a number after a target or provider is its weight; a key may be ${NAME}" },
        orders(order), { name: "affinity", label: "Affinity", value: affinity, options: AFFINITIES, hint: "what goes to the same deployment" }, ...others(rest)];
    },
    body: (values) => ({ table: { [values.kind]: members(values.members), order: values.order, affinity: values.affinity, ...parse(values.others) } }),
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

/** A list, or a table of numbers, as lines. */
const lines = (list) => (Array.isArray(list) ? list : Object.entries(list).map(([name, number]) => `${name} ${number}`));

function members(text) {
  const rows = text.split("\n").map((line) => line.trim().split(/\s+/)).filter(([name]) => name);
  return rows.some(([, number]) => number) ? Object.fromEntries(rows.map(([name, number]) => [name, Number(number ?? 1)])) : rows.map(([name]) => name);
}

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
  const details = kind === "providers" ? [item.wire, table.base_url, item.ready === false && "no API key"] : [table.order?.replace("_", " "), table.affinity && table.affinity !== "none" && `affinity ${table.affinity}`];
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
