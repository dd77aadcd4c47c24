// View 4: one token's way up the layers, step by step with the numbers.

import { colour, inkOn } from "./colour.js";
import { count, h, percent, plain, readable, roving, short, word } from "./dom.js";
import { panel, results, segments, textArea } from "./parts.js";
import { strip } from "./strips.js";

export const title = "A token’s path";
export const lede = "One position on its way through the model: what it starts as, what each layer adds, and which token it would name if it stopped there.";
export const usesText = true;
const START = "A robot must obey the orders given it";
const ROWS = 24; // of scores

export function mount(root, context) {
  const { params } = context;
  let text = params.get("text") ?? START, layer = Number(params.get("layer") || 0), head = Number(params.get("head") || 0);
  let position = params.has("position") ? Number(params.get("position")) : null;
  const out = results(context);
  const { node } = textArea("Text", text, (value) => { text = value; position = null; look(); });
  root.append(node, out.node);
  look();

  function look(focus) {
    context.set({ text: text === START ? null : text, layer: layer || null, head: head || null, position });
    out.show(async (signal) => {
      const asked = { text, layer: Math.min(layer, context.model.config.n_layer - 1), head: Math.min(head, context.model.config.n_head - 1) };
      if (position !== null) asked.position = position;
      const found = await context.ask("path", asked, signal);
      if (focus) requestAnimationFrame(() => root.querySelector(focus)?.focus());
      return [words(found), ladder(found), steps(found)];
    });
  }

  function words(found) {
    const most = Math.max(...(found.why || [0]).map((one) => Math.abs(one)), 1e-9);
    const group = h("div", { class: "words", role: "group", "aria-label": "Tokens; the chosen one is followed" });
    group.append(...found.tokens.map((one, place) => h("button", { type: "button", "aria-pressed": String(place === found.position), "aria-label": `${plain(one.text)}, token ${place}`,
      style: { "background-color": found.why && place <= found.position ? colour("shade", found.why[place] / most) : "transparent" },
      onclick: () => { position = place; look(".words [aria-pressed=true]"); } }, readable(one.text))));
    roving(group, "button");
    const first = found.top[0];
    return panel("The token", [group, h("p", { class: "note" }, `Behind it the model expects `, h("span", { class: "mono" }, word(first.text)), ` (${percent(first.p)}).`,
      found.why ? " Orange tokens pull towards that, blue ones away from it (gradient × input)." : "")], { name: "token", note: "Choose the position to follow." });
  }

  function ladder(found) {
    const rungs = found.ladder.map((rung, place) => ({ ...rung, place })).reverse();
    const most = Math.max(...found.ladder.slice(1).flatMap((rung) => [rung.attention, rung.mlp]));
    const bar = (value) => (value === undefined ? "" : h("span", { class: "half", title: short(value), style: { display: "block" } }, h("i", { style: { left: "0", width: `${(100 * value) / most}%` } })));
    const rows = rungs.map((rung) => {
      const below = rung.place - 1; // the layer that leads here
      const name = rung.place ? `after layer ${below}` : "embedding";
      const pick = rung.place ? h("button", { type: "button", class: "quiet", onclick: () => { layer = below; look(".ladder tr[aria-current] button"); } }, name) : h("span", { class: "faint" }, name);
      return h("tr", { "aria-current": below === found.layer ? "true" : null }, h("th", { scope: "row" }, pick), h("td", null, bar(rung.attention)), h("td", null, bar(rung.mlp)),
        rung.top.map((one) => h("td", null, h("span", { class: "chip", title: `${plain(one.text)} ${percent(one.p, 2)}`, style: { "background-color": colour("weight", one.p), color: inkOn("weight", one.p) } }, word(one.text)), " ", h("span", { class: "faint" }, percent(one.p, 0)))));
    });
    const table = h("table", { class: "ladder" }, h("thead", null, h("tr", null, h("th", { scope: "col" }, "stream"), h("th", { scope: "col" }, "attention adds"), h("th", { scope: "col" }, "MLP adds"), h("th", { scope: "col", colspan: found.ladder[0].top.length }, "what it would say here"))), h("tbody", null, rows));
    return panel("The way up", h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Logit lens" }, table),
      { name: "logit-lens", note: "Read from the bottom. The final norm and the output head turn the stream into words before its time (logit lens). Choose a layer to see its steps below." });
  }

  function steps(found) {
    const { steps: one } = found, config = context.model.config;
    const step = (name, text, ...content) => h("li", null, h("div", null, h("h3", null, name), h("p", null, text), content));
    const entry = found.layer === 0
      ? [strip(`embedding of token ${found.tokens[found.position].id}`, found.embedding), found.learned ? strip(`position ${found.position}`, found.learned) : null]
      : [strip("residual stream", one.stream)];
    const where = { learned: "A learned vector for its position is added.", rotary: "Positions come later: queries and keys are rotated by them.", relative: "Positions come later, as distances between query and key." }[found.positions];
    const largest = Math.max(...[...one.query, ...one.key, ...one.value].map(Math.abs));
    const active = one.activations.filter((value) => Math.abs(value) > 1e-6).length;
    const strongest = one.activations.map((value, place) => [value, place]).sort((a, b) => Math.abs(b[0]) - Math.abs(a[0])).slice(0, 6);
    const after = found.ladder[found.layer + 1].top[0];
    const list = h("ol", { class: "steps" },
      step(found.layer ? "What comes in" : "Embedding", found.layer ? `The stream after layer ${found.layer - 1}; a norm brings it to one size before each part.` : `The token's row of the table. ${where}`, entry),
      step("Query, key, value", `Head ${found.head} projects the normed stream to ${one.query.length} numbers, three times${config.kv_heads < config.n_head ? `; ${config.n_head / config.kv_heads} heads share a key and a value` : ""}.`,
        strip("query: what it looks for", one.query, { largest }), strip("key: what it offers", one.key, { largest }), strip("value: what it passes on", one.value, { largest })),
      step("Scores, mask, softmax", `The query times each key, over √${one.query.length} = ${short(Math.sqrt(one.query.length))}. Masked scores become −∞; the softmax makes weights of the rest, which sum to 100%.`, scores(found)),
      step("Mixed values", `The values, weighted and added. All ${config.n_head} heads stand side by side in what follows.`, strip(`head ${found.head}`, one.mixed)),
      step("Projection", "A matrix mixes the heads; the result is added to the stream.", strip("attention adds", one.attention)),
      step("MLP", `${count(active, "neuron")} of ${one.activations.length.toLocaleString("en")} ${active === 1 ? "is" : "are"} active. Strongest: ${strongest.map(([value, place]) => `${place} (${short(value)})`).join(", ")}.`,
        strip("activations", one.activations), strip("MLP adds", one.mlp)),
      step("What goes on", `The stream after layer ${found.layer}. Read out here, it says “${plain(after.text)}” (${percent(after.p)}).`, strip("residual stream", one.out),
        found.layer === config.n_layer - 1 ? strip("after the final norm", found.hidden) : null));
    const chooser = (name, n, chosen, act) => segments(name, Array.from({ length: n }, (_, value) => ({ value, text: String(value) })), chosen, act);
    const extra = h("div", { class: "row", style: { "margin-bottom": "20px" } }, h("span", { class: "faint" }, "Layer"), chooser("Layer", config.n_layer, found.layer, (value) => { layer = value; look("[aria-label=Layer] [aria-pressed=true]"); }),
      h("span", { class: "faint" }, "Head"), chooser("Head", config.n_head, found.head, (value) => { head = value; look("[aria-label=Head] [aria-pressed=true]"); }));
    return panel(`Layer ${found.layer}, step by step`, list, { name: `path-layer-${found.layer}`, extra, note: `Strips: blue below zero, orange above; the strongest colour is the largest magnitude. Rows of the score table are tokens.` });
  }

  function scores(found) {
    const { scores, masked, weights, lengths, blocks } = found.steps;
    const names = [...Array.from({ length: blocks }, (_, place) => `block ${place}`), ...found.tokens.map((one) => one.text)];
    const most = Math.max(...scores.map(Math.abs), 1e-9);
    let rows = names.map((_, place) => place);
    if (rows.length > ROWS) {
      const near = rows.filter((place) => !masked[place]).sort((a, b) => weights[b] - weights[a]).slice(0, ROWS);
      rows = near.sort((a, b) => a - b);
    }
    const line = (place) => h("tr", null, h("td", null, word(names[place])), h("td", { class: "n" }, short(scores[place])),
      h("td", null, h("div", { class: "half" }, h("i", { class: scores[place] < 0 ? "" : "pos", style: scores[place] < 0 ? { right: "50%", width: `${(50 * -scores[place]) / most}%` } : { left: "50%", width: `${(50 * scores[place]) / most}%` } }))),
      masked[place] ? h("td", null, h("div", { class: "masked", role: "img", "aria-label": "masked" })) : h("td", null, h("div", { class: "half" }, h("i", { style: { left: "0", width: `${100 * weights[place]}%` } }))),
      h("td", { class: "n" }, masked[place] ? h("span", { class: "faint" }, "masked") : percent(weights[place])),
      h("td", { class: "n" }, lengths[place] === undefined ? "" : short(lengths[place])));
    const table = h("table", { class: "scores" }, h("thead", null, h("tr", null, ["key", "score", "", "weight", "", "length of value"].map((one, place) => h("th", { scope: "col", class: place === 1 || place === 5 ? "n" : "" }, one)))), h("tbody", null, rows.map(line)));
    return [h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Scores and weights" }, table), rows.length < names.length ? h("p", { class: "note" }, `The ${rows.length} largest of ${names.length}.`) : null];
  }
}
