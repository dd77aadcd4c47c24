// View 2: a text as the model read it. The more surprising a token was, the warmer its colour.

import { colour, ramp } from "./colour.js";
import { bytes, h, percent, plain, readable, roving, word } from "./dom.js";
import { checkbox, panel, results, textArea } from "./parts.js";

export const title = "Read";
export const lede = "Every token of a text, coloured by how much it surprised the model that had read what stands before it.";
export const usesText = true;
const START = "The university was founded in 1887. It has a library, three museums and a submarine. Students come from all over the world to study law, medicine and the history of the Roman Empire.";
const MOST = 12; // bits of the warmest colour

export function mount(root, context) {
  const { params } = context;
  let text = params.get("text") ?? START, cuts = params.get("cuts") === "1";
  const out = results(context);
  const { node } = textArea("Text", text, (value) => { text = value; look(); }, 4);
  root.append(node, out.node);
  look();

  function look() {
    context.set({ text: text === START ? null : text });
    out.show(async (signal) => figure(await context.ask("read", { text }, signal)));
  }

  function figure(found) {
    const card = h("div", { class: "card", "aria-live": "polite" });
    const words = h("div", { class: `words${cuts ? " cuts" : ""}`, role: "group", "aria-label": "The text, token by token" });
    const buttons = found.tokens.map((one) => {
      const tell = () => {
        for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
        card.replaceChildren(...about(one));
      };
      const bits = one.bits ?? 0;
      const button = h("button", { type: "button", "aria-pressed": "false", "aria-label": `${plain(one.text)}, ${one.bits === null ? "not predicted" : `${bits.toFixed(1)} bits`}`, onfocus: tell, onmouseenter: tell, onclick: tell,
        style: { "background-color": colour("surprise", bits / MOST) } }, readable(one.text));
      return button;
    });
    words.append(...buttons);
    roving(words, "button");
    const most = found.tokens.reduce((best, one, place) => ((one.bits ?? 0) > (found.tokens[best].bits ?? 0) ? place : best), 0);
    buttons[most].setAttribute("aria-pressed", "true");
    card.append(...about(found.tokens[most]));
    const legend = h("div", { class: "legend space" }, h("span", null, "0 bits"), ramp("surprise"), h("span", null, `${MOST} bits or more`));
    const fact = (name, value) => h("div", null, h("dt", null, name), h("dd", null, value));
    const facts = h("dl", { class: "facts" },
      fact("tokens", found.tokens.length.toLocaleString("en")), fact("size", bytes(found.bytes)),
      fact("bits a byte", (found.bits / Math.max(found.bytes, 1)).toFixed(2)), fact("bits a token", (found.bits / Math.max(found.predicted, 1)).toFixed(2)),
      fact("perplexity", (2 ** (found.bits / Math.max(found.predicted, 1))).toFixed(1)));
    const toggle = checkbox("Show how the tokenizer cut the text", cuts, (on) => { cuts = on; words.classList.toggle("cuts", on); context.set({ cuts: on ? 1 : null }); });
    return [panel("Surprise, token by token", [facts, words, legend, card], { name: "surprise", extra: h("div", { class: "row space" }, toggle) }),
      h("p", { class: "keys" }, h("kbd", null, "←"), " ", h("kbd", null, "→"), " go from token to token, as the pointer does.")];
  }

  function about(one) {
    const fact = (name, value) => h("div", null, h("dt", null, name), h("dd", null, value));
    if (one.bits === null) return [h("p", null, "Nothing stands before this token, so nothing predicted it.")];
    const longest = Math.max(...one.instead.map((other) => other.p));
    return [
      h("dl", { class: "facts" }, fact("token", h("span", { class: "mono" }, word(one.text))), fact("number", one.id), fact("surprise", `${one.bits.toFixed(2)} bits`),
        fact("probability", percent(2 ** -one.bits, 2)), fact("rank", one.rank.toLocaleString("en")), fact("uncertainty before it", `${one.entropy.toFixed(2)} bits`)),
      h("h3", null, "Expected instead"),
      h("ul", { class: "bars few" }, one.instead.map((other) => h("li", null, h("div", { class: "barrow" }, h("span", { class: "word" }, word(other.text)),
        h("span", { class: "track" }, h("i", { style: { width: `${(100 * other.p) / longest}%` } })), h("span", { class: "share" }, percent(other.p)))))),
    ];
  }
}
