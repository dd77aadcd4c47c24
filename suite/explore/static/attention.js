// View 3: attention. A grid of all heads, the matrix of one, and arcs from one word to those it looks at.

import { colour, headColour, ramp } from "./colour.js";
import { count, h, percent, plain, readable, roving, s } from "./dom.js";
import { drawWeights, MASKED } from "./heads.js";
import { checkbox, panel, results, textArea, unpack } from "./parts.js";

export const title = "Attention";
export const lede = "Which earlier tokens each head of each layer looks at. Choose a head, then a word.";
export const usesText = true;
const START = "A robot must obey the orders given it by human beings except where such orders would conflict with the First Law.";
const NEAR = 40; // words on either side whose own arcs are hinted at
const LABELLED = 64; // tokens that have room for their names beside the matrix

export function mount(root, context) {
  const { params } = context;
  let text = params.get("text") ?? START, bothWays = params.get("both") === "1";
  let layer = params.has("layer") ? Number(params.get("layer")) : null, head = Number(params.get("head") || 0);
  let token = params.has("token") ? Number(params.get("token")) : null;
  let grid = null, weights = null;
  const out = results(context), detail = results(context);
  const { node } = textArea("Text", text, (value) => { text = value; token = null; look(); });
  root.append(node, h("div", { class: "row space" }, checkbox("Let all tokens see each other (prefix-LM)", bothWays, (on) => { bothWays = on; context.set({ both: on ? 1 : null }); look(); })), out.node, detail.node,
    h("p", { class: "keys" }, "Arrow keys move between heads, and between words."));
  look();

  function look() {
    context.set({ text: text === START ? null : text });
    out.show(async (signal) => {
      grid = unpack(await context.ask("attention/grid", { text, both_ways: bothWays }, signal));
      if (token === null || token >= grid.tokens.length) token = opening();
      if (layer === null || layer >= grid.layers || head >= grid.heads) [layer, head] = strongest();
      choose(layer, head);
      return heads();
    });
  }

  /** The word the picture opens at: "it", as in the essays, else the last. */
  function opening() {
    const at = grid.tokens.findIndex((one) => one.text.trim() === "it");
    return at > 0 ? at : grid.tokens.length - 1;
  }

  /** The head that looks most at one word that is neither the first, nor this one, nor the one before it. */
  function strongest() {
    if (grid.size !== grid.tokens.length) return [0, 0];
    let best = [0, 0], most = -1;
    for (let place = 0; place < grid.layers * grid.heads; place += 1) {
      for (let key = 1; key < token - 1; key += 1) {
        if (text === START && !"robot".includes(grid.tokens[key].text.trim())) continue; // what "it" stands for
        const cell = grid.cells[(place * grid.size + token) * grid.size + key];
        if (cell !== MASKED && cell > most) { most = cell; best = [Math.floor(place / grid.heads), place % grid.heads]; }
      }
    }
    return best;
  }

  function choose(toLayer, toHead) {
    const same = weights && weights.layer === toLayer && weights.text === text && weights.both === bothWays;
    [layer, head] = [toLayer, toHead];
    detail.show(async (signal) => {
      if (!same) weights = { ...unpack(await context.ask("attention/layer", { text, layer: toLayer, both_ways: bothWays }, signal)), layer: toLayer, text, both: bothWays };
      context.set({ layer, head, token });
      return [arcs(), matrix()];
    }, `Layer ${layer}, head ${head}`);
  }

  function heads() {
    const { size, layers, heads: across } = grid;
    const area = size * size;
    const group = h("div", { class: "grid", role: "radiogroup", "aria-label": "Heads" });
    for (let row = 0; row < layers; row += 1) {
      const line = h("div", { class: "gridrow" }, h("span", null, row));
      for (let column = 0; column < across; column += 1) {
        const place = row * across + column, habit = grid.habits[row][column];
        const canvas = h("canvas", null);
        drawWeights(canvas, grid.cells.subarray(place * area, (place + 1) * area), size, 88);
        line.append(h("button", { type: "button", role: "radio", "aria-checked": String(row === layer && column === head), title: name(row, column, habit), "aria-label": name(row, column, habit), onclick: (event) => {
          for (const one of group.querySelectorAll("button")) one.setAttribute("aria-checked", String(one === event.currentTarget));
          choose(row, column);
        } }, canvas));
      }
      group.append(line);
    }
    roving(group, "button", across);
    const legend = h("div", { class: "legend space" }, h("span", null, "0%"), ramp("weight"), h("span", null, "100% of a row, on a square-root scale"), h("span", null, "Hatched: masked, the query may not see it"));
    return panel("All heads", [group, legend], { note: "A row a layer, a column a head; in each picture a row a query. Layers and heads count from 0.", name: "heads" });
  }

  const name = (row, column, habit) => `Layer ${row}, head ${column}: ${percent(habit.previous, 0)} on the token before, ${percent(habit.first, 0)} on the first, ${percent(habit.self, 0)} on itself`;
  const weight = (query, key) => {
    const cell = weights.cells[(head * weights.size + query) * weights.size + key];
    return cell === MASKED ? null : cell / 254;
  };

  function arcs() {
    const words = h("div", { class: "arcwords", role: "radiogroup", "aria-label": "Words; the chosen one asks" });
    const drawing = s("svg", { height: 150, "aria-hidden": "true" });
    const told = h("p", { class: "note", "aria-live": "polite" });
    const buttons = grid.tokens.map((one, place) => h("button", { type: "button", role: "radio", "aria-checked": String(place === token), "aria-label": `${plain(one.text)}, token ${place}`,
      onclick: () => { token = place; context.set({ token }); paint(); } }, readable(one.text).replace(/\n/g, "⏎")));
    words.append(...buttons);
    words.addEventListener("focusin", (event) => { // as with radio buttons, the arrow keys choose
      const at = buttons.indexOf(event.target);
      if (at >= 0 && at !== token) { token = at; context.set({ token }); paint(); }
    });
    const box = h("div", { class: "scroll" }, h("div", { class: "arcs" }, drawing, words));
    const ink = headColour(head, grid.heads);

    function paint() {
      buttons.forEach((button, place) => {
        const share = weight(token, place);
        button.setAttribute("aria-checked", String(place === token));
        button.style.setProperty("background-color", share === null ? "transparent" : colour("surprise", Math.sqrt(share)));
        button.style.setProperty("color", share === null ? "var(--muted)" : "var(--ink)");
      });
      const middles = buttons.map((button) => button.offsetLeft + button.offsetWidth / 2);
      const width = words.scrollWidth, height = Math.min(190, 60 + width / 9);
      drawing.setAttribute("width", width);
      drawing.setAttribute("height", height);
      const shapes = [], reach = Math.max(...middles.map((x) => Math.abs(x - middles[token])), 1);
      const arc = (from, to, share, strong) => {
        const high = Math.min(1, 0.18 + 0.82 * Math.sqrt(Math.abs(to - from) / Math.max(reach, 200))) * (height - 8);
        const far = height - 2 - (high * 4) / 3;
        return s("path", { d: `M${from} ${height - 1}C${from} ${far} ${to} ${far} ${to} ${height - 1}`, fill: "none", stroke: strong ? ink : "currentColor", "stroke-width": strong ? 0.6 + 5 * share : 1, "stroke-linecap": "round", opacity: strong ? 0.35 + 0.65 * share : 0.13 });
      };
      for (let query = Math.max(0, token - NEAR); query < Math.min(grid.tokens.length, token + NEAR); query += 1) {
        if (query === token) continue;
        for (let key = 0; key < grid.tokens.length; key += 1) if (key !== query && weight(query, key) > 0.3) shapes.push(arc(middles[query], middles[key], 0, false));
      }
      const ranked = grid.tokens.map((_, place) => [weight(token, place), place]).filter(([share]) => share > 0.004).sort((a, b) => b[0] - a[0]);
      for (const [share, place] of ranked) if (place !== token) shapes.push(arc(middles[token], middles[place], share, true));
      const own = weight(token, token);
      if (own > 0.004) shapes.push(s("circle", { cx: middles[token], cy: height - 6, r: 2 + 4 * own, fill: ink }));
      drawing.replaceChildren(...shapes);
      told.textContent = `${plain(grid.tokens[token].text)} looks at ${ranked.slice(0, 4).map(([share, place]) => `${plain(grid.tokens[place].text)} ${percent(share, 0)}`).join(", ")}.`;
      marker?.();
    }
    requestAnimationFrame(() => {
      roving(words, "button");
      paint();
      box.scrollLeft = Math.max(0, buttons[token].offsetLeft - box.clientWidth / 2);
    });
    return panel(`Layer ${layer}, head ${head}: what a word looks at`, [box, told], { name: `arcs-${layer}-${head}` });
  }

  let marker = null;

  function matrix() {
    const size = weights.size, named = size <= LABELLED;
    const canvas = h("canvas", null), over = s("svg", { "aria-hidden": "true" });
    const frame = h("div", { class: "matrix" }, canvas, over);
    const told = h("p", { class: "note" }, "Point at a cell to read it.");
    const scroll = h("div", { class: "scroll" }, frame);
    requestAnimationFrame(() => {
      const margin = named ? Math.min(110, 12 + 7 * Math.max(...grid.tokens.map((one) => plain(one.text).length))) : 24;
      const room = Math.max(260, Math.min(scroll.clientWidth - margin - 70, 820));
      const cell = Math.max(named ? 13 : 1, Math.min(26, Math.floor(room / size))), side = cell * size;
      drawWeights(canvas, weights.cells.subarray(head * size * size, (head + 1) * size * size), size, side);
      frame.style.setProperty("width", `${margin + side + 60}px`);
      frame.style.setProperty("height", `${margin + side + 4}px`);
      canvas.style.setProperty("left", `${margin}px`);
      canvas.style.setProperty("top", `${margin}px`);
      over.setAttribute("width", margin + side + 60);
      over.setAttribute("height", margin + side + 4);
      if (named) {
        grid.tokens.forEach((one, place) => {
          const at = margin + (place + 0.5) * cell, label = plain(one.text).slice(0, 14);
          over.append(s("text", { class: "code", x: margin - 5, y: at + 4, "text-anchor": "end" }, label));
          over.append(s("text", { class: "code", transform: `translate(${at + 4} ${margin - 5}) rotate(-60)` }, label));
        });
      } else over.append(s("text", { x: margin, y: margin - 8 }, "keys →"), s("text", { transform: `translate(${margin - 8} ${margin + 44}) rotate(-90)` }, "← queries"));
      const row = s("rect", { x: margin, width: side, height: cell, fill: "none", stroke: "currentColor", "stroke-width": 1.5 });
      over.append(row);
      marker = () => row.setAttribute("y", margin + token * cell);
      marker();
      const at = (event) => {
        const box = canvas.getBoundingClientRect();
        return [event.clientY - box.top, event.clientX - box.left].map((offset) => Math.min(size - 1, Math.max(0, Math.floor(offset / cell))));
      };
      canvas.addEventListener("mousemove", (event) => {
        const [query, key] = at(event), share = weight(query, key);
        told.textContent = `${plain(grid.tokens[query].text)} → ${plain(grid.tokens[key].text)}: ${share === null ? "masked" : percent(share)}`;
      });
      canvas.addEventListener("click", (event) => {
        const button = root.querySelectorAll(".arcwords button")[at(event)[0]];
        button?.click();
      });
    });
    return panel(`Layer ${layer}, head ${head}: the whole matrix`, [scroll, told], { note: `${count(size, "query", "queries")} down, as many keys across; rows sum to 100%.`, name: `matrix-${layer}-${head}` });
  }
}
