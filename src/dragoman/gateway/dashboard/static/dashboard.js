// The page: signs in, shows the view of the address, and asks the gateway again every few seconds.

import { $, api, el, HttpError, key, put, say } from "./parts.js";
import { showProblem } from "./forms.js";
import * as overview from "./overview.js";
import * as requests from "./requests.js";
import * as usage from "./usage.js";
import { keys, teams } from "./holders.js";
import * as models from "./models.js";
import * as system from "./system.js";
import * as playground from "./playground.js";
import { address } from "./range.js";

const INTERVAL = 2000;
const VIEWS = [overview, requests, usage, keys, teams, models, system, playground];
const RANKS = { owner: 1, viewer: 2, admin: 3 };

let me = null, timer = null, round = 0;

const mayOpen = (view) => view.role === null || (RANKS[me?.role] || 0) >= RANKS[view.role];
const available = () => VIEWS.filter(mayOpen);
const current = () => available().find((view) => view.id === address().view) || available()[0];

// Views ---------------------------------------------------------------------------------------------------------------

function show() {
  const view = me ? current() : null;
  for (const { id } of VIEWS) $(id).hidden = id !== view?.id;
  $("signin").hidden = Boolean(me);
  const nav = document.querySelector("nav");
  nav.hidden = !me;
  nav.replaceChildren(...(me ? available() : []).map(({ id, title }) => el("a", { href: `#/${id}`, "aria-current": id === view.id ? "page" : null }, title)));
  nav.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  $("signout").hidden = !me || !key.read();
  document.title = view ? `${view.title} · dragoman` : "dragoman";
  showProblem("");
}

function navigate() {
  show();
  scrollTo(0, 0);
  if (me) update(false);
}

/** Ask for the data of the view, and again after a while. */
async function update(isTick) {
  clearTimeout(timer);
  const mine = ++round;
  try {
    if (!me) {
      if (!key.read() && "needsKey" in document.documentElement.dataset) return signOut("");
      me = await api("me");
      show();
    }
    const view = current();
    await view.refresh({ me, isTick });
    if (mine === round) showStatus("healthy", "live");
  } catch (error) {
    if (mine !== round) return;
    if (error instanceof HttpError && error.status === 401) return signOut(key.read() ? error.message : "");
    if (error instanceof HttpError && !me) return signOut(error.message);
    if (error instanceof HttpError && error.status < 500) showProblem(error.message);
    else showStatus("cooldown", error instanceof HttpError ? error.message : `not reachable: ${error.message}`);
  }
  if (mine === round) timer = setTimeout(() => update(true), (current()?.interval || INTERVAL) * (document.hidden ? 10 : 1));
}

function signOut(problem) {
  clearTimeout(timer);
  key.drop();
  me = null;
  put($("signin-problem"), problem);
  showStatus("", "");
  show();
  $("key").focus();
}

function showStatus(state, text) {
  const node = $("status");
  node.dataset.state = state;
  if (node.dataset.text === text) return;
  node.dataset.text = text;
  node.replaceChildren(...(text ? [el("span", { class: "dot" }), text] : []));
}

// Start ---------------------------------------------------------------------------------------------------------------

for (const view of VIEWS) view.mount?.($(view.id));
$("signin-form").addEventListener("submit", (event) => {
  event.preventDefault();
  key.write($("key").value.trim());
  $("key").value = "";
  update(false);
});
$("signout").addEventListener("click", () => signOut(""));
$("problem").querySelector("button").addEventListener("click", () => showProblem(""));
addEventListener("hashchange", navigate);
addEventListener("paramschange", () => update(false));
addEventListener("signin", () => signOut("Sign in with the new key."));
addEventListener("resize", () => me && current().draw?.());
document.addEventListener("visibilitychange", () => document.hidden || !me || update(true));
addEventListener("unhandledrejection", (event) => say(event.reason.message));
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  $("main").focus();
});
update(false);
