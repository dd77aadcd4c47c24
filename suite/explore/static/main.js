// The page's frame: which view and which model, the state in the address, light and dark.

import { h } from "./dom.js";
import { ask } from "./parts.js";
import * as next from "./next.js";
import * as read from "./read.js";
import * as attention from "./attention.js";
import * as path from "./path.js";
import * as pair from "./pair.js";
import * as classes from "./classes.js";
import * as music from "./music.js";
import * as map from "./map.js";

const VIEWS = { next, read, attention, path, pair, classes, music, map };
const main = document.getElementById("view"), status = document.getElementById("status");
const chooser = document.getElementById("model"), themes = document.getElementById("theme");
const descriptions = new Map();
let offered = { models: [], first: "" };
let open = null; // { view, model, controller, params }

const say = (text) => { status.textContent = text; };

/** What the address says: the view and its parameters. */
function address() {
  const [, view = "", query = ""] = location.hash.match(/^#\/(\w+)\??(.*)$/) || [];
  return { view: Object.hasOwn(VIEWS, view) ? view : "next", params: new URLSearchParams(query) };
}

function write(view, params) {
  const query = params.toString();
  history.replaceState(null, "", `#/${view}${query ? `?${query}` : ""}`);
  tabs(view, params.get("model"));
}

function tabs(view, model) {
  const text = open?.params.get("text");
  const entries = Object.entries(VIEWS).map(([name, { title, usesText }]) => {
    const kept = new URLSearchParams();
    if (model) kept.set("model", model);
    if (text && usesText && VIEWS[view].usesText) kept.set("text", text); // one text, seen in several ways
    const query = kept.toString();
    return h("li", null, h("a", { href: `#/${name}${query ? `?${query}` : ""}`, "aria-current": name === view ? "page" : null }, title));
  });
  const list = document.getElementById("views");
  const focused = [...list.querySelectorAll("a")].indexOf(document.activeElement);
  list.replaceChildren(...entries);
  if (focused >= 0) list.querySelectorAll("a")[focused].focus({ preventScroll: true });
  const current = list.querySelector("[aria-current]"); // where the row scrolls, the view's own tab shows
  list.scrollLeft = current.offsetLeft - list.offsetLeft - (list.clientWidth - current.offsetWidth) / 2;
}

/** The model that a view opens with: the one asked for if the view can show it, else the first that it can. */
function modelFor(view, wanted) {
  const fits = (one) => !VIEWS[view].tasks || VIEWS[view].tasks.includes(one.task);
  const text = (one) => !VIEWS[view].usesText || one.task !== "music";
  const named = offered.models.find((one) => one.name === wanted);
  if (named && fits(named)) return named;
  const order = [offered.models.find((one) => one.name === offered.first), ...offered.models].filter(Boolean);
  const wishes = VIEWS[view].tasks || [null]; // in the order of the view's liking
  return wishes.map((task) => order.find((one) => fits(one) && text(one) && (!task || one.task === task))).find(Boolean) || order[0];
}

async function describe(name) {
  if (!descriptions.has(name)) descriptions.set(name, await ask("model", { model: name }));
  return descriptions.get(name);
}

async function show() {
  const { view, params } = address();
  const model = modelFor(view, params.get("model"));
  open?.controller.abort();
  const controller = new AbortController();
  open = { view, params, controller };
  chooser.replaceChildren(...offered.models
    .filter((one) => !VIEWS[view].tasks || VIEWS[view].tasks.includes(one.task))
    .map((one) => h("option", { value: one.name }, one.name === one.task ? one.name : `${one.name} (${one.task})`)));
  chooser.value = model.name;
  tabs(view, params.get("model"));
  const { title, lede } = VIEWS[view];
  document.title = `${title} · suite explore`;
  const body = h("div", null);
  main.replaceChildren(h("h1", null, title), h("p", { class: "lede" }, lede), body);
  try {
    const described = await describe(model.name);
    if (controller.signal.aborted) return;
    VIEWS[view].mount(body, {
      model: described, sizes: offered.sizes, params, signal: controller.signal, say,
      ask: (path, body, signal) => ask(path, { ...body, model: model.name }, signal),
      set(values) {
        if (controller.signal.aborted) return;
        for (const [name, value] of Object.entries(values)) {
          if (value === null || value === undefined || value === "") params.delete(name);
          else params.set(name, value);
        }
        write(view, params);
      },
    });
  } catch (error) {
    body.replaceChildren(h("p", { class: "alert", role: "alert" }, error.message));
  }
}

function theme(chosen) {
  document.documentElement.dataset.theme = chosen;
  const other = chosen === "dark" ? "light" : "dark";
  themes.textContent = other === "dark" ? "Dark" : "Light";
  themes.setAttribute("aria-label", `Switch to the ${other} theme`);
}

const system = matchMedia("(prefers-color-scheme: dark)");
let kept = null; // null: as the system has it
try { kept = localStorage.getItem("theme"); } catch { /* storage may be off */ }
theme(kept || (system.matches ? "dark" : "light"));
system.addEventListener("change", () => { if (!kept) { theme(system.matches ? "dark" : "light"); show(); } });
themes.addEventListener("click", () => {
  kept = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  try { localStorage.setItem("theme", kept); } catch { /* storage may be off */ }
  theme(kept);
  show();
});
chooser.addEventListener("change", () => {
  const { view, params } = address();
  const text = params.get("text");
  const fresh = new URLSearchParams({ model: chooser.value });
  if (text && VIEWS[view].usesText) fresh.set("text", text);
  history.replaceState(null, "", `#/${view}?${fresh}`);
  show();
});
document.querySelector(".skip").addEventListener("click", (event) => { // a link would change the address, which is the state
  event.preventDefault();
  main.focus();
});
window.addEventListener("hashchange", show);

ask("models").then((found) => {
  offered = found;
  return show();
}).catch((error) => main.replaceChildren(h("p", { class: "alert", role: "alert" }, error.message)));
