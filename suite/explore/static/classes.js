// View 7: the labels of a text, and how each token pulls at one of them.

import { colour, ramp } from "./colour.js";
import { h, percent, short } from "./dom.js";
import { panel, results, textArea } from "./parts.js";

export const title = "Classes";
export const lede = "How likely each label is, and which tokens pull towards the one you choose.";
export const tasks = ["classify"];
const START = "The violin is a string instrument, tuned in fifths and played with a bow. Antonio Stradivari built some of the best in Cremona.";

export function mount(root, context) {
  const { params } = context;
  let text = params.get("text") ?? START, label = params.get("label");
  const out = results(context);
  const { node } = textArea("Text", text, (value) => { text = value; label = null; look(); }, 3);
  root.append(node, out.node);
  look();

  function look(focus) {
    context.set({ text: text === START ? null : text, label });
    out.show(async (signal) => {
      const found = await context.ask("classify", { text, label }, signal);
      if (focus) requestAnimationFrame(() => root.querySelector(".bars [aria-pressed=true]")?.focus());
      return [bars(found), shares(found)];
    });
  }

  const name = (one) => one.replace(/_/g, " ");

  function bars(found) {
    const rows = found.scores.map((one) => h("li", null, h("button", { type: "button", class: "barrow label-row", "aria-pressed": String(one.label === found.label), onclick: () => { label = one.label; look(true); } },
      h("span", { class: "name" }, name(one.label)), h("span", { class: "track" }, h("i", { class: found.assigned.includes(one.label) ? "" : "off", style: { width: `${100 * one.p}%` } })), h("span", { class: "share" }, percent(one.p)))));
    return panel("Labels", h("ul", { class: "bars" }, rows), { name: "labels", note: found.several ? "A text may have several: each share is a probability of its own. Pale: not assigned. Choose a label to see what pulls at it." : "The shares sum to 100%. Choose a label to see what pulls at it." });
  }

  function shares(found) {
    if (!found.pieces.length) return h("p", { class: "note" }, `The text was read in ${found.parts} parts; tokens are explained for texts that fit in one.`);
    const most = Math.max(...found.pieces.map((one) => Math.abs(one.weight)), 1e-9);
    const words = h("p", { class: "words" }, found.pieces.map((one) => h("span", { title: short(one.weight), style: { "background-color": colour("shade", one.weight / most), padding: "4px 0", "border-radius": "3px" } }, one.text)));
    const ranked = found.pieces.map((one) => one).filter((one) => one.text.trim()).sort((a, b) => Math.abs(b.weight) - Math.abs(a.weight)).slice(0, 8);
    const list = h("ul", { class: "bars few" }, ranked.map((one) => h("li", null, h("div", { class: "barrow" }, h("span", { class: "word" }, one.text.trim()), h("span", { class: "half" }, h("i", { class: one.weight < 0 ? "" : "pos", style: one.weight < 0 ? { right: "50%", width: `${(50 * -one.weight) / most}%` } : { left: "50%", width: `${(50 * one.weight) / most}%` } })), h("span", { class: "share" }, short(one.weight))))));
    return panel(`What pulls at ${name(found.label)}`, [words, h("div", { class: "legend space" }, h("span", null, "away from it"), ramp("shade"), h("span", null, "towards it")), h("h3", { class: "space" }, "Strongest"), list],
      { name: "shares", note: "Gradient × input of the label’s logit, with the share of the linear word model where there is one: the effect of a small change, to first order." });
  }
}
