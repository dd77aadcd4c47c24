// View 1: the next token. Bars of true probabilities; choosing one grows a tree of branches.

import { count, h, percent, plain, readable, word } from "./dom.js";
import { panel, results, slider, textArea } from "./parts.js";

export const title = "Next token";
export const lede = "Ten candidates for what comes next, with their true share of the whole vocabulary. Choose one, and the text goes on.";
export const usesText = true;
const START = "The Second World";
const TEMPERATURES = [0, 0.2, 0.4, 0.6, 0.8, 0.9, 1, 1.1, 1.2, 1.5, 2, 3];
const KS = [0, 1, 2, 3, 5, 10, 20, 40, 100, 400, 1000];
const PS = [0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 1];

export function mount(root, context) {
  const { params } = context;
  const near = (list, name, other) => Math.max(0, list.indexOf(Number(params.get(name) ?? other)));
  const settings = { temperature: TEMPERATURES[near(TEMPERATURES, "t", 1)], top_k: KS[near(KS, "k", 0)], top_p: PS[near(PS, "p", 1)] };
  let text = params.get("text") ?? START;
  let tree = { id: null, text: "", children: [], parent: null }, here = tree;
  for (const id of (params.get("path") || "").split(".").filter(Boolean).map(Number)) here = grow(here, { id, text: null });
  let answer = null, writing = 0;

  const out = results(context);
  const branches = h("div", null);
  const { node: prompt } = textArea("Text", text, (value) => {
    text = value;
    tree = here = { id: null, text: "", children: [], parent: null };
    look();
  });
  const knob = (label, list, name, key, show) => slider(label, {
    value: list.indexOf(settings[name]), min: 0, max: list.length - 1, step: 1, at: (place) => list[place], show,
    change: (place) => { settings[name] = list[place]; context.set({ [key]: list[place] === (name === "top_k" ? 0 : 1) ? null : list[place] }); look(); },
  });
  const undo = h("button", { type: "button", onclick: back }, "Undo");
  const draw = h("button", { type: "button", onclick: () => sample(1) }, "Draw one");
  const many = h("button", { type: "button", onclick: () => sample(20) }, "Draw 20");
  root.append(
    prompt,
    h("div", { class: "row space" },
      knob("Temperature", TEMPERATURES, "temperature", "t", (t) => (t ? String(t) : "0, the likeliest")),
      knob("Top-k", KS, "top_k", "k", (k) => (k ? String(k) : "off")),
      knob("Top-p", PS, "top_p", "p", (p) => (p < 1 ? String(p) : "off"))),
    h("div", { class: "two" }, out.node, h("section", { class: "panel" }, h("div", { class: "head" }, h("h2", null, "Branches")), h("div", { class: "row" }, undo, draw, many), branches)),
    h("p", { class: "keys" }, h("kbd", null, "1"), " to ", h("kbd", null, "9"), " choose · ", h("kbd", null, "Enter"), " the one in focus, or the likeliest · ", h("kbd", null, "Backspace"), " undo · ", h("kbd", null, "D"), " draw"),
  );
  document.addEventListener("keydown", keys, { signal: context.signal });
  look();

  function path(node = here) {
    const ids = [];
    for (let at = node; at.parent; at = at.parent) ids.unshift(at.id);
    return ids;
  }

  function grow(parent, token) {
    const known = parent.children.find((one) => one.id === token.id);
    if (known) return known;
    const node = { ...token, children: [], parent };
    parent.children.push(node);
    return node;
  }

  function look(extra = {}) {
    context.set({ text: text === START ? null : text, path: path().join(".") });
    answer = null; // until the new one is there, the bars on the page are of another text, and nothing can be chosen
    return out.show(async (signal) => {
      const asked = here;
      const found = await context.ask("next", { text, tokens: path(asked), ...settings, ...extra }, signal);
      answer = found;
      const tail = found.prompt.slice(found.prompt.length - path(asked).length);
      for (let at = asked, place = tail.length - 1; at.parent; at = at.parent, place -= 1) at.text = tail[place].text;
      drawTree();
      return figure(found, tail);
    }, "");
  }

  function choose(token) {
    here = grow(here, token);
    look();
  }

  function back() {
    writing = 0;
    if (here.parent) { here = here.parent; look(); }
  }

  async function sample(steps) {
    writing = steps;
    while (writing > 0 && !context.signal.aborted) {
      writing -= 1;
      await look({ seed: Math.floor(Math.random() * 2 ** 31) });
      if (!answer?.drawn || answer.drawn.id === answer.eos) break;
      here = grow(here, answer.drawn);
    }
    if (!context.signal.aborted) await look();
  }

  function keys(event) {
    if (event.target.matches("textarea, input, select") || event.ctrlKey || event.metaKey || event.altKey || !answer) return;
    const onControl = event.target.matches("button, a");
    const number = /^[1-9]$/.test(event.key) ? Number(event.key) : event.key === "Enter" && !onControl ? 1 : 0;
    if (number && answer.top[number - 1]) choose(answer.top[number - 1]);
    else if (event.key === "Backspace") back();
    else if (event.key === "d") sample(1);
    else return;
    event.preventDefault();
  }

  function figure(found, tail) {
    const before = found.prompt.slice(0, found.prompt.length - tail.length);
    const written = h("p", { class: "text" }, readable(before.map((one) => one.text).join("")), tail.length ? h("span", { class: "new" }, readable(tail.map((one) => one.text).join(""))) : null);
    const plainly = settings.temperature === 1 && !settings.top_k && settings.top_p === 1;
    const longest = Math.max(found.rest.p, ...found.top.map((one) => Math.max(one.p, one.q)), 0.02);
    const track = (one) => h("span", { class: "track" },
      plainly ? null : h("i", { class: "before", style: { width: `${(100 * one.p) / longest}%` } }),
      h("i", { style: { width: `${(100 * (plainly ? one.p : one.q)) / longest}%`, ...(plainly ? {} : { top: "5px", bottom: "5px" }), ...(one.q || plainly ? {} : { display: "none" }) } }));
    const rows = found.top.map((one, place) => h("li", null,
      h("button", { type: "button", class: `barrow${one.q ? "" : " cut"}`, onclick: () => found === answer && choose(one), title: `token ${one.id}`,
        "aria-label": `${place + 1}: ${plain(one.text)}, ${percent(one.p, 2)}${one.q ? "" : ", cut away"}` },
      h("span", { class: "key" }, place < 9 ? place + 1 : ""), h("span", { class: "word" }, word(one.text)), track(one), h("span", { class: "share" }, percent(one.p)))));
    rows.push(h("li", null, h("div", { class: "barrow rest" }, h("span"), h("span", { class: "faint" }, "all others"), track(found.rest), h("span", { class: "share" }, percent(found.rest.p)))));
    const cut = settings.temperature === 0 ? "Temperature 0 leaves the likeliest token alone."
      : found.cut.n ? `Top-k and top-p cut away ${count(found.cut.n, "token")} with ${percent(found.cut.p)} of the mass.` : "Nothing is cut away.";
    const shown = [written, h("ul", { class: "bars" }, rows),
      h("p", { class: "note" }, `${count(found.rest.n, "other token")} share ${percent(found.rest.p)}. Entropy ${found.entropy.toFixed(2)} bits. ${plainly ? "" : `${cut} Pale: the model's share; solid: after the settings.`}`)];
    if (found.prompt.length > found.context) shown.push(h("p", { class: "note" }, `The text has ${count(found.prompt.length, "token")}; the model sees the last ${found.context.toLocaleString("en")}.`));
    return panel("What comes next", shown, { name: "next-token" });
  }

  function drawTree() {
    undo.disabled = !here.parent;
    const line = new Set();
    for (let at = here; at; at = at.parent) line.add(at);
    const chain = (node) => {
      const item = h("li", null);
      for (let at = node; ; [at] = at.children) {
        const node = at;
        item.append(h("button", { type: "button", class: line.has(node) ? "on" : "", "aria-current": node === here ? "true" : null, onclick: () => { writing = 0; here = node; look(); },
          "aria-label": node.parent ? plain(node.text || "") : "The text as it was" }, node.parent ? word(node.text ?? "…") : "start"));
        if (node.children.length !== 1) {
          if (node.children.length) item.append(h("ul", null, node.children.map(chain)));
          return item;
        }
      }
    };
    const held = branches.contains(document.activeElement);
    branches.replaceChildren(h("ul", { class: "tree space" }, chain(tree)));
    if (held) branches.querySelector("[aria-current]")?.focus();
  }
}
