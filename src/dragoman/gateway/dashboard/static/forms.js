// Forms in dialogs, questions before something is deleted, and secrets that are shown once.

import { copy, el, put, say } from "./parts.js";

function open(title, content, onclose) {
  const id = `dialog-${Date.now()}`;
  const dialog = el("dialog", { "aria-labelledby": id }, el("h2", { id }, title), content);
  dialog.addEventListener("close", () => {
    dialog.remove();
    onclose();
  });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

function control(field) {
  const { type = "text", options, value = "" } = field;
  const id = `field-${field.name}`;
  const common = { id, name: field.name, required: Boolean(field.required) };
  let node;
  if (options) {
    const choices = options.map((each) => (Array.isArray(each) ? each : [each, each]));
    node = el("select", common, choices.map(([choice, text]) => el("option", { value: choice, selected: choice === value }, text)));
  } else if (type === "textarea") {
    node = el("textarea", { ...common, rows: field.rows || 4, spellcheck: false, class: "code", value });
  } else if (type === "checkbox") {
    node = el("input", { ...common, type, checked: Boolean(value) });
    return el("label", { class: "check", htmlFor: id }, node, field.label);
  } else {
    node = el("input", { ...common, type, autocomplete: "off", spellcheck: false, value });
    if (type === "number") Object.assign(node, { min: "0", step: field.step || "any" });
    if (field.placeholder) node.placeholder = field.placeholder;
  }
  node.readOnly = Boolean(field.fixed);
  return el("div", { class: field.wide ? "wide" : "" }, el("label", { htmlFor: id }, field.label), node,
    field.hint ? el("small", { class: "soft" }, field.hint) : null);
}

/** A form in a dialog. `submit` gets the values; what it throws is shown. Resolves to its result, or null. */
export function edit(title, fields, { action = "Save", submit, text }) {
  return new Promise((resolve) => {
    let result = null;
    const problem = el("p", { role: "alert" }), button = el("button", {}, action);
    const form = el("form", { class: "fields", onsubmit: async (event) => {
      event.preventDefault();
      const values = Object.fromEntries(fields.map(({ name }) => {
        const node = form.elements[name];
        return [name, node.type === "checkbox" ? node.checked : node.value.trim()];
      }));
      button.disabled = true;
      put(problem, "");
      try {
        result = await submit(values);
        dialog.close();
      } catch (error) {
        put(problem, error.message);
        form.elements[error.param]?.focus();
      }
      button.disabled = false;
    } }, text ? el("p", { class: "wide" }, text) : null, fields.map(control), problem,
    el("div", { class: "actions wide" }, button, el("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, "Cancel")));
    const dialog = open(title, form, () => resolve(result));
  });
}

/** Ask before something that cannot be undone, then do it. Resolves to whether it was done. */
export async function confirm(title, text, action, submit) {
  const done = await edit(title, [], { action, submit: async () => (await submit()) || true, text });
  return Boolean(done);
}

/** Show a secret once. */
export function showSecret(title, secret) {
  return new Promise((resolve) => {
    const button = el("button", { onclick: () => copy(secret, button) }, "Copy");
    const content = el("div", { class: "fields" },
      el("p", { class: "wide" }, "Copy the key now: it is shown only once."),
      el("output", { class: "secret code wide" }, secret),
      el("div", { class: "actions wide" }, button, el("button", { class: "quiet", onclick: () => dialog.close() }, "Close")));
    const dialog = open(title, content, resolve);
    button.focus();
  });
}

/** A button of a row of actions; an error is shown in the page. */
export function action(label, name, run, { danger = false } = {}) {
  const button = el("button", { class: danger ? "quiet danger" : "quiet", ariaLabel: `${label}: ${name}`, onclick: async () => {
    button.disabled = true;
    try {
      await run();
    } catch (error) {
      showProblem(error.message);
    }
    button.disabled = false;
  } }, label);
  return button;
}

export function showProblem(text) {
  const box = document.getElementById("problem");
  put(box.querySelector("span"), text);
  box.hidden = !text;
  if (text) say(text);
}
