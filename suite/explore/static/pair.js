// View 6: source and target inside one sequence: which source words a translation looked at, where a summary comes from.

import { colour, inkOn } from "./colour.js";
import { count, h, percent, s, short } from "./dom.js";
import { checkbox, panel, results, segments, textArea } from "./parts.js";

export const title = "Source & target";
export const lede = "Two texts in one sequence: which source words the model looked at for each word of a translation, and which sentence each sentence of a summary comes from.";
export const tasks = ["translate", "summarize"];
const STARTS = {
  de: "Der Hund schläft unter dem Tisch, und die Katze sitzt auf dem Stuhl.",
  en: "The dog is sleeping under the table, and the cat is sitting on the chair.",
  fr: "Le chien dort sous la table et le chat est assis sur la chaise.",
};
const ARTICLE = `Timor is an island at the southern end of Maritime Southeast Asia, north of the Timor Sea. The island is divided between the sovereign states of East Timor, on the eastern part, and Indonesia, on the western part. The Indonesian part, also known as West Timor, constitutes part of the province of East Nusa Tenggara. The island covers an area of 30,777 square kilometres.

Anthropologists identify eleven distinct ethno-linguistic groups in Timor. The largest are the Atoni of western Timor, and the Tetum of central and eastern Timor. The official languages of East Timor are Tetum and Portuguese, while in West Timor it is Indonesian.

Christianity is the dominant religion throughout the island of Timor, at about 90% of the population. The highest point of the island is Tatamailau, 2,963 metres above the sea.`;

export function mount(root, context) {
  if (context.model.task === "translate") translation(root, context);
  else summary(root, context);
}

function translation(root, context) {
  const { params, model } = context;
  const known = model.directions.map((pair) => pair.join("-"));
  let direction = known.includes(params.get("pair")) ? params.get("pair") : known[0];
  let text = params.get("text") ?? STARTS[direction.split("-")[0]] ?? "";
  const out = results(context);
  const { node, area } = textArea("Source", text, () => { button.disabled = false; });
  const button = h("button", { type: "button", class: "main", onclick: () => { text = area.value; look(); } }, "Translate");
  area.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) button.click(); });
  const pairs = segments("Direction", known.map((value) => ({ value, text: value.replace("-", " → ") })), direction, (value) => {
    const untouched = area.value === STARTS[direction.split("-")[0]];
    direction = value;
    if (untouched) area.value = STARTS[direction.split("-")[0]] ?? area.value;
    text = area.value;
    look();
  });
  root.append(node, h("div", { class: "row space" }, pairs, button), out.node);
  look();

  function look() {
    const [source, target] = direction.split("-");
    context.set({ pair: direction === known[0] ? null : direction, text: text === STARTS[source] ? null : text });
    out.show(async (signal) => {
      const found = await context.ask("translate", { text, source, target }, signal);
      const whole = panel("Translation", h("p", { class: "text" }, found.text), { name: "translation", note: `Score: ${short(found.score)} nats a token.` });
      for (const warning of found.warnings) whole.append(h("p", { class: "note" }, warning));
      return [whole, found.sentences.map((one, place) => alignment(one, place))];
    });
  }
}

/** Source words above, target words below, and bands between them; the matrix beside it. */
function alignment(one, place) {
  const sources = h("div", { class: "arcwords" }, one.source.map((text) => h("button", { type: "button", tabindex: "-1", class: "pairword" }, ` ${text} `)));
  const told = h("p", { class: "note", "aria-live": "polite" }, "Choose a target word.");
  const drawing = s("svg", { height: 110, "aria-hidden": "true" });
  let chosen = null;
  const targets = h("div", { class: "arcwords" }, one.target.map((text, row) => {
    const tell = () => { chosen = row; paint(); };
    return h("button", { type: "button", "aria-pressed": "false", onclick: tell, onfocus: tell, onmouseenter: tell }, ` ${text} `);
  }));
  const box = h("div", { class: "scroll" }, h("div", { class: "arcs" }, sources, drawing, targets));

  function paint() {
    const middle = (button) => button.offsetLeft + button.offsetWidth / 2;
    drawing.setAttribute("width", Math.max(sources.scrollWidth, targets.scrollWidth));
    const bands = [];
    one.weights.forEach((row, target) => row.forEach((share, source) => {
      if (share < (target === chosen ? 0.02 : 0.12)) return;
      const from = middle(sources.children[source]), to = middle(targets.children[target]);
      const strong = chosen === null || chosen === target;
      bands.push(s("path", { d: `M${from} 2C${from} 60 ${to} 50 ${to} 108`, fill: "none", "stroke-linecap": "round", stroke: chosen === target ? "var(--warm)" : "var(--bar)", "stroke-width": 0.8 + 7 * share, opacity: strong ? 0.2 + 0.7 * share : 0.12 }));
    }));
    drawing.replaceChildren(...bands);
    [...targets.children].forEach((button, row) => button.setAttribute("aria-pressed", String(row === chosen)));
    [...sources.children].forEach((button, source) => button.style.setProperty("background-color", chosen === null ? "transparent" : colour("surprise", Math.sqrt(one.weights[chosen][source]))));
    if (chosen !== null) {
      const ranked = one.weights[chosen].map((share, source) => [share, source]).sort((a, b) => b[0] - a[0]).slice(0, 3).filter(([share]) => share > 0.005);
      told.textContent = `${one.target[chosen]} comes from ${ranked.map(([share, source]) => `${one.source[source]} ${percent(share, 0)}`).join(", ")}.`;
    }
  }
  requestAnimationFrame(paint);
  const cells = one.target.map((word, row) => h("tr", null, h("th", { scope: "row" }, word), one.weights[row].map((share, source) => h("td", { class: "cell", title: `${word} ← ${one.source[source]}: ${percent(share)}`, style: { "background-color": colour("weight", share), color: inkOn("weight", share) } }, share >= 0.1 ? Math.round(100 * share) : ""))));
  const matrix = h("table", { class: "cells" }, h("thead", null, h("tr", null, h("td"), one.source.map((word) => h("th", { scope: "col" }, h("span", null, word))))), h("tbody", null, cells));
  return panel(`Sentence ${place + 1}: what each word looked at`, [box, told, h("div", { class: "scroll space", tabindex: "0", role: "region", "aria-label": "Alignment as a table, in percent" }, matrix)],
    { name: `alignment-${place + 1}`, note: "Bands: the attention of the first and the last layer from each target word to the source words; in percent below." });
}

function summary(root, context) {
  const { params } = context;
  let text = params.get("text") ?? ARTICLE, sentences = Number(params.get("n") || 3), written = params.get("write") === "1";
  const out = results(context);
  const { node, area } = textArea("Article", text, () => {}, 6);
  const button = h("button", { type: "button", class: "main", onclick: () => { text = area.value; look(); } }, "Summarise");
  const many = segments("Sentences", [1, 2, 3, 5].map((value) => ({ value, text: String(value) })), sentences, (value) => { sentences = value; look(); });
  root.append(node, h("div", { class: "row space" }, button, h("span", { class: "faint" }, "Sentences"), many, checkbox("In its own words (invents much)", written, (on) => { written = on; look(); })), out.node);
  look();

  function look() {
    context.set({ text: text === ARTICLE ? null : text, n: sentences === 3 ? null : sentences, write: written ? 1 : null });
    out.show(async (signal) => figure(await context.ask("summarize", { text, sentences, style: written ? "write" : "extract" }, signal)));
  }

  function figure(found) {
    const source = h("p", { class: "src", tabindex: "0", role: "region", "aria-label": "The article" });
    const list = h("ul", { class: "sums" });
    const choose = (chosen) => {
      [...list.querySelectorAll("button")].forEach((one, place) => one.setAttribute("aria-pressed", String(place === chosen)));
      const { start, end } = found.sentences[chosen] ?? {};
      const characters = [...text]; // places are counted in characters, not in UTF-16 units
      if (start === null || start === undefined) { source.replaceChildren(text); return; }
      const mark = h("mark", null, characters.slice(start, end).join(""));
      source.replaceChildren(characters.slice(0, start).join(""), mark, characters.slice(end).join(""));
      source.scrollTop = Math.max(0, mark.offsetTop - source.offsetTop - 60);
    };
    list.append(...found.sentences.map((one, place) => h("li", null, h("button", { type: "button", "aria-pressed": "false", onclick: () => choose(place), onfocus: () => choose(place) },
      one.text, one.share < 1 ? h("span", { class: "note", style: { display: "block" } }, one.start === null ? "no sentence of the article is near" : `${percent(one.share, 0)} of its word pairs are in the sentence marked`) : null))));
    choose(0);
    return [panel("Summary, and where it comes from", h("div", { class: "pairs" }, h("div", null, h("h3", null, "Summary"), list), h("div", null, h("h3", null, "Article"), source)), { name: "summary", note: `The model read ${count(found.read, "sentence")} of ${found.of}.` }),
      found.warnings.map((warning) => h("p", { class: "note" }, warning))];
  }
}
