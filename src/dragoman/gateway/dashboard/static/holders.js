// Keys and teams: their limits as used of allowed, and everything that an operator does with them.

import { $, api, count, dollars, el, many, named, post, put, query, seconds } from "./parts.js";
import { action, confirm, edit, showSecret } from "./forms.js";

const NUMBERS = { requests_per_minute: "Requests per minute", tokens_per_minute: "Tokens per minute", concurrent: "Concurrent requests" };
const PERIODS = ["day", "week", "month"];
const list = (text) => text.split(",").map((each) => each.trim()).filter(Boolean);
const number = (text) => (text === "" ? null : Number(text));

// Forms ---------------------------------------------------------------------------------------------------------------

function commonFields(holder) {
  const budget = (per, unit) => holder.budgets?.find((each) => each.per === per)?.[unit] ?? "";
  return [
    { name: "models", label: "Allowed models", value: (holder.models || ["*"]).join(", "), hint: "separated by commas; * is any text", wide: true },
    ...Object.entries(NUMBERS).map(([name, label]) => ({ name, label, type: "number", step: "1", value: holder[name] ?? "" })),
    ...PERIODS.map((per) => ({ name: `dollars-${per}`, label: `Dollars per ${per}`, type: "number", value: budget(per, "dollars") })),
    ...PERIODS.map((per) => ({ name: `tokens-${per}`, label: `Tokens per ${per}`, type: "number", step: "1", value: budget(per, "tokens") })),
    { name: "tags", label: "Tags", value: (holder.tags || []).join(", "), hint: "separated by commas", wide: true },
    { name: "cache", label: "Use the response cache", type: "checkbox", value: holder.cache },
  ];
}

function commonBody(values) {
  const budgets = PERIODS.map((per) => {
    const budget = { per };
    for (const unit of ["dollars", "tokens"]) if (values[`${unit}-${per}`] !== "") budget[unit] = Number(values[`${unit}-${per}`]);
    return budget;
  }).filter((budget) => "dollars" in budget || "tokens" in budget);
  return { models: list(values.models), tags: list(values.tags), budgets, cache: values.cache,
    ...Object.fromEntries(Object.keys(NUMBERS).map((name) => [name, number(values[name])])) };
}

function keyFields(key, teams) {
  return [
    { name: "name", label: "Name", value: key.name || "", required: true, fixed: Boolean(key.name) },
    { name: "team", label: "Team", value: key.team || "", options: [["", "no team"], ...teams.map((team) => [team.name, team.name])] },
    { name: "owner", label: "Owner", value: key.owner || "" },
    { name: "role", label: "Role", value: key.role || "", options: [["", "none"], "owner", "viewer", "admin"] },
    { name: "expires_at", label: "Expires", type: "datetime-local", value: key.expires_at ? localTime(key.expires_at) : "" },
    ...commonFields(key),
  ];
}

function localTime(text) {
  const moment = new Date(text);
  return new Date(moment - moment.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
}

function keyBody(values) {
  return { ...commonBody(values), team: values.team || null, owner: values.owner || null, role: values.role || null,
    expires_at: values.expires_at ? new Date(values.expires_at).toISOString() : null };
}

// Cards ---------------------------------------------------------------------------------------------------------------

function meters(levels) {
  if (!levels?.length) return null;
  const format = (level, value) => (level.unit === "dollars" ? dollars(value) : count(value));
  return el("ul", { class: "levels" }, levels.map((level) => {
    const name = level.unit === "slots" ? "concurrent" : `${level.unit} per ${level.per}`;
    const text = `${format(level, level.used)} of ${format(level, level.limit)}`;
    return el("li", {}, el("span", {}, name), el("meter", { max: level.limit || 1, high: level.limit * 0.8, low: level.limit * 0.5, optimum: 0, value: level.used, ariaLabel: `${name}: ${text}` }),
      el("span", { class: "soft", title: level.resets_in ? `empty in ${seconds(level.resets_in)}` : "" }, text));
  }));
}

function card(kind, holder, badges, facts, buttons) {
  return el("li", { class: "card holder", "data-name": holder.name, "data-status": holder.status || "" },
    el("h3", {}, el("a", { href: `#/requests?${query({ since: "7d", [kind === "keys" ? "key" : "team"]: holder.name })}`, title: "Its requests" }, holder.name), badges.filter(Boolean).map((text) => el("span", { class: `badge ${text}` }, text))),
    el("p", { class: "soft" }, facts.filter(Boolean).join(" · ")), meters(holder.levels), el("div", { class: "actions" }, buttons.filter(Boolean)));
}

function facts(holder) {
  return [
    holder.models.length && !holder.models.includes("*") ? `models ${holder.models.join(", ")}` : "all models", holder.tags.length && holder.tags.map((tag) => `#${tag}`).join(" "),
    holder.cache && "response cache", holder.source !== "store" && holder.source,
  ];
}

/** What admins can do with every key and team. */
function commonButtons(kind, holder, reload) {
  const one = kind === "keys" ? "key" : "team";
  const changed = (path, body) => async () => {
    await post(path, body);
    await reload();
  };
  return [
    holder.budgets.length ? action("Reset budgets", holder.name, async () => {
      if (await confirm(`Reset the budgets of ${holder.name}?`, "What is used of its current budgets is set to 0.", "Reset", () => post(named(kind, holder.name, "reset")))) await reload();
    }) : null,
    holder.source === "store over file" ? action("Revert", holder.name, changed(named(kind, holder.name, "revert"))) : null,
    action("Delete", holder.name, async () => {
      const text = kind === "keys" ? "Clients with this key are refused at once. Its usage stays." : "A team with keys cannot be deleted.";
      if (await confirm(`Delete the ${one} ${holder.name}?`, text, "Delete", () => api(named(kind, holder.name), undefined, { method: "DELETE" }))) await reload();
    }, { danger: true }),
  ];
}

// Keys ----------------------------------------------------------------------------------------------------------------

function keysView() {
  let teams = [], all = [], me = null;

  async function refresh(context) {
    me = context.me;
    const [page, limits, known] = await Promise.all([api("keys?limit=1000"), api("limits?limit=1000"), me.role === "owner" ? { teams: [] } : api("teams")]);
    const levels = new Map(limits.keys.map((key) => [key.name, key.levels]));
    teams = known.teams;
    all = page.keys.map((key) => ({ ...key, levels: levels.get(key.name) }));
    $("new-key").hidden = me.role !== "admin";
    draw();
  }

  const reload = () => refresh({ me });

  function draw() {
    const wanted = $("key-filter").value.trim().toLowerCase();
    const fits = (key) => [key.name, key.team, key.owner, key.role, key.status, ...key.tags].join(" ").toLowerCase().includes(wanted);
    const shown = all.filter(fits);
    $("key-list").replaceChildren(...shown.map(item));
    put($("no-keys"), shown.length ? "" : all.length ? "No key fits the filter." : "This gateway has no keys. The first one must have the role admin.");
  }

  function item(key) {
    const isAdmin = me.role === "admin", mayRotate = isAdmin || me.role === "owner";
    const until = key.previous_until && `old key until ${new Date(key.previous_until).toLocaleString()}`;
    const toggle = key.disabled ? "enable" : "disable";
    const buttons = [
      isAdmin ? action("Edit", key.name, () => change(key)) : null,
      mayRotate ? action("Rotate", key.name, () => rotate(key)) : null,
      mayRotate ? action(key.disabled ? "Enable" : "Disable", key.name, async () => {
        await post(named("keys", key.name, toggle));
        await reload();
      }) : null,
      ...(isAdmin ? commonButtons("keys", key, reload) : []),
    ];
    return card("keys", key, [key.status, key.role], [key.team && `team ${key.team}`, key.owner, key.expires_at && `expires ${new Date(key.expires_at).toLocaleString()}`, until, ...facts(key)], buttons);
  }

  async function make() {
    const made = await edit("New key", keyFields(all.length ? {} : { role: "admin" }, teams), { action: "Make the key", submit: (values) => post("keys", { ...keyBody(values), name: values.name }) });
    if (!made) return;
    await showSecret(`Key ${made.name}`, made.key);
    await reload().catch(() => dispatchEvent(new Event("signin"))); // the first key: from now on the page needs one
  }

  async function change(key) {
    const submit = (values) => api(named("keys", key.name), keyBody(values), { method: "PATCH" });
    if (await edit(`Key ${key.name}`, keyFields(key, teams), { submit })) await reload();
  }

  async function rotate(key) {
    const overlap = { name: "overlap", label: "The old key is accepted for", value: "0", options: [["0", "no time"], ["3600", "an hour"], ["86400", "a day"], ["604800", "a week"]], wide: true };
    const made = await edit(`Rotate the key ${key.name}`, [overlap], { action: "Rotate", submit: (values) => post(named("keys", key.name, "rotate"), { overlap: Number(values.overlap) }) });
    if (!made) return;
    await showSecret(`New key ${made.name}`, made.key);
    await reload();
  }

  return {
    id: "keys", title: "Keys", role: "owner", interval: 5000, refresh,
    mount: (root) => root.append(
      el("div", { class: "head" }, el("h2", {}, "Keys"), el("input", { id: "key-filter", type: "search", placeholder: "name, team, owner, tag", ariaLabel: "Filter keys", oninput: draw }),
        el("button", { id: "new-key", onclick: make }, "New key")),
      el("ul", { id: "key-list", class: "holders" }), el("p", { id: "no-keys", class: "soft" })),
  };
}

// Teams ---------------------------------------------------------------------------------------------------------------

function teamsView() {
  let me = null;

  async function refresh(context) {
    me = context.me;
    const [{ teams }, limits] = await Promise.all([api("teams"), api("limits?limit=1")]);
    const levels = new Map(limits.teams.map((team) => [team.name, team.levels])), isAdmin = me.role === "admin";
    $("new-team").hidden = !isAdmin;
    $("team-list").replaceChildren(...teams.map((team) => card("teams", { ...team, levels: levels.get(team.name) }, [team.disabled && "disabled"],
      [many(team.keys, "key"), ...facts(team)],
      isAdmin ? [action("Edit", team.name, () => change(team)), action(team.disabled ? "Enable" : "Disable", team.name, () => toggle(team)), ...commonButtons("teams", team, reload)] : [])));
    put($("no-teams"), teams.length ? "" : "No teams yet. A team has limits and budgets that its keys share.");
  }

  const reload = () => refresh({ me });

  async function toggle(team) {
    await api(named("teams", team.name), { disabled: !team.disabled }, { method: "PATCH" });
    await reload();
  }

  async function make() {
    const fields = [{ name: "name", label: "Name", required: true, wide: true }, ...commonFields({})];
    if (await edit("New team", fields, { action: "Make the team", submit: (values) => post("teams", { ...commonBody(values), name: values.name }) })) await reload();
  }

  async function change(team) {
    const submit = (values) => api(named("teams", team.name), commonBody(values), { method: "PATCH" });
    if (await edit(`Team ${team.name}`, commonFields(team), { submit })) await reload();
  }

  return {
    id: "teams", title: "Teams", role: "viewer", interval: 5000, refresh,
    mount: (root) => root.append(el("div", { class: "head" }, el("h2", {}, "Teams"), el("button", { id: "new-team", onclick: make }, "New team")),
      el("ul", { id: "team-list", class: "holders" }), el("p", { id: "no-teams", class: "soft" })),
  };
}

export const keys = keysView(), teams = teamsView();
