// View 8: where the parameters are, and what the key/value cache takes.

import { dark } from "./colour.js";
import { bytes, count, h, percent, s } from "./dom.js";
import { ask, panel, results, slider } from "./parts.js";

export const title = "Model map";
export const lede = "Every weight of the model by its size, and the memory that its keys and values take as a text grows.";
const PARTS = { embeddings: "embeddings", positions: "positions", attention: "attention", mlp: "MLP", norms: "norms", head: "output head" };

function partOf(name) {
  if (name.startsWith("tokens")) return "embeddings";
  if (name.startsWith("positions")) return "positions";
  if (name.startsWith("head")) return "head";
  if (name.includes("norm")) return "norms";
  return name.includes("attention") ? "attention" : "mlp";
}

const COLOURS = {
  light: { embeddings: "#2b6f8a", positions: "#6aa0b2", attention: "#b3672e", mlp: "#d9a45f", norms: "#8d8a83", head: "#6d5a8c" },
  dark: { embeddings: "#5fa9c6", positions: "#8fc3d1", attention: "#d08a54", mlp: "#a97f3d", norms: "#9a988f", head: "#a08cc4" },
};
const million = (n) => (n >= 1e9 ? `${(n / 1e9).toFixed(2)} billion` : n >= 1e6 ? `${(n / 1e6).toFixed(1)} million` : n.toLocaleString("en"));

export function mount(root, context) {
  const { params } = context;
  let size = params.get("size") || "", tokens = Number(params.get("tokens") || 0);
  const choice = h("select", { id: "size", onchange: () => { size = choice.value; context.set({ size }); look(); } },
    h("option", { value: "" }, `${context.model.name} (loaded)`), context.sizes.map((one) => h("option", { value: one }, `${one}, by its shape alone`)));
  choice.value = size;
  const out = results(context);
  root.append(h("div", { class: "row" }, h("label", { for: "size", class: "faint" }, "Shape of"), choice), out.node);
  look();

  function look() {
    out.show(async (signal) => {
      const found = await ask(`map?model=${encodeURIComponent(size || context.model.name)}`, undefined, signal);
      return [area(found), cache(found), table(found)];
    });
  }

  /** Columns for the embeddings, each layer and the head; areas are parameters. */
  function area(found) {
    const { config } = found, colours = COLOURS[dark() ? "dark" : "light"];
    const columns = [{ name: "embeddings", parts: {} }, ...Array.from({ length: config.n_layer }, (_, layer) => ({ name: String(layer), parts: {} })), { name: "output", parts: {} }];
    for (const { name, parameters } of found.weights) {
      const layer = name.match(/^blocks\.(\d+)\./);
      const column = layer ? columns[Number(layer[1]) + 1] : name.startsWith("head") || name.startsWith("norm") ? columns.at(-1) : columns[0];
      column.parts[partOf(name)] = (column.parts[partOf(name)] || 0) + parameters;
    }
    const width = 1000, height = 300, gap = columns.length > 30 ? 1 : 3;
    const free = width - gap * (columns.length - 1);
    const drawing = s("svg", { viewBox: `0 0 ${width} ${height + 44}`, role: "img", "aria-label": `${million(found.total)} parameters in ${count(config.n_layer, "layer")}`, width: "100%" });
    let x = 0;
    for (const column of columns) {
      const total = Object.values(column.parts).reduce((sum, one) => sum + one, 0), wide = (free * total) / found.total;
      let y = 0;
      for (const [part, parameters] of Object.entries(column.parts)) {
        const high = (height * parameters) / total;
        drawing.append(s("rect", { x, y, width: Math.max(wide, 0.5), height: Math.max(high - 1, 0.4), fill: colours[part], rx: wide > 8 ? 3 : 0 }, s("title", null, `${/^\d/.test(column.name) ? `layer ${column.name}, ` : ""}${PARTS[part]}: ${parameters.toLocaleString("en")}`)));
        y += high;
      }
      if (wide > (/^\d/.test(column.name) ? 18 : 70)) drawing.append(s("text", { x: x + wide / 2, y: height + 17, "text-anchor": "middle" }, column.name));
      if (wide > 44) drawing.append(s("text", { x: x + wide / 2, y: height + 34, "text-anchor": "middle" }, percent(total / found.total)));
      x += wide + gap;
    }
    const sums = {};
    for (const { name, parameters } of found.weights) sums[partOf(name)] = (sums[partOf(name)] || 0) + parameters;
    const legend = h("div", { class: "legend space" }, Object.keys(PARTS).filter((part) => sums[part]).map((part) => h("span", null, h("i", { class: "swatch", style: { "background-color": colours[part] } }), `${PARTS[part]} ${percent(sums[part] / found.total)}`)));
    const tied = found.tied ? " The output head is the embedding table, so it costs nothing." : "";
    return panel(`${million(found.total)} parameters`, [drawing, legend], { name: "parameters", note: `${count(config.n_layer, "layer")}, width ${config.d_model}, ${count(config.n_head, "head")}, ${config.position} positions, context ${config.context.toLocaleString("en")}, vocabulary ${config.vocab_size.toLocaleString("en")}. Areas are parameters.${tied}` });
  }

  function cache(found) {
    const { per_token: per, slides } = found.cache, context_ = found.config.context;
    const most = slides ? 2 * context_ : context_;
    tokens = Math.min(tokens || Math.round(context_ / 2), most);
    const drawing = s("svg", { viewBox: "0 0 1000 240", width: "100%", role: "img", "aria-label": "Bytes of keys and values by tokens read" });
    const told = h("p", { class: "note", "aria-live": "polite" });
    const held = (n, type) => Math.min(n, context_) * per[type];
    const left = 90, right = 880, bottom = 200, top = 14, full = held(most, "float32");
    const x = (n) => left + ((right - left) * n) / most, y = (n) => bottom - ((bottom - top) * n) / full;
    for (const share of [0, 0.5, 1]) drawing.append(s("line", { class: "axis", x1: left, x2: right, y1: y(share * full), y2: y(share * full) }), s("text", { x: left - 10, y: y(share * full) + 4, "text-anchor": "end" }, bytes(Math.round(share * full))));
    for (const n of [0, context_, ...(slides ? [most] : [])]) drawing.append(s("text", { x: x(n), y: bottom + 18, "text-anchor": "middle" }, n.toLocaleString("en")));
    drawing.append(s("text", { x: (left + right) / 2, y: bottom + 36, "text-anchor": "middle" }, "tokens read"));
    const colours = COLOURS[dark() ? "dark" : "light"];
    for (const [type, tone] of [["float32", colours.embeddings], ["float16", colours.attention]]) {
      const line = [0, context_, most].map((n) => `${x(n)},${y(held(n, type))}`).join(" ");
      drawing.append(s("polyline", { points: line, fill: "none", stroke: tone, "stroke-width": 2.5 }), s("text", { class: "strong", x: right + 10, y: y(held(most, type)) + 4 }, type));
    }
    const now = s("line", { y1: top, y2: bottom, stroke: "currentColor", "stroke-width": 1, "stroke-dasharray": "3 3" });
    const dots = ["float32", "float16"].map((type) => s("circle", { r: 4.5, fill: type === "float32" ? colours.embeddings : colours.attention }));
    drawing.append(now, ...dots);
    const paint = (n) => {
      tokens = n;
      now.setAttribute("x1", x(n));
      now.setAttribute("x2", x(n));
      ["float32", "float16"].forEach((type, place) => { dots[place].setAttribute("cx", x(n)); dots[place].setAttribute("cy", y(held(n, type))); });
      told.textContent = `After ${count(n, "token")}: ${bytes(held(n, "float32"))} in float32, ${bytes(held(n, "float16"))} in float16. ${n < context_ ? `The next one adds ${bytes(per.float32)}` : slides ? "Beyond the context the oldest slide out, so it grows no more" : "The context is full"}: ${found.config.kv_heads} keys and values of ${found.config.head_width} numbers in each of ${count(found.config.n_layer, "layer")}.`;
    };
    const control = slider("Tokens read", { value: tokens, min: 1, max: most, step: 1, show: (n) => n.toLocaleString("en"), change: (n) => { paint(n); context.set({ tokens: n }); } });
    paint(tokens);
    return panel("The key/value cache", [drawing, told], { name: "cache", extra: h("div", { class: "row" }, control), note: "What a model keeps of the tokens it has read, so that each new one is a single step." });
  }

  function table(found) {
    const merged = new Map();
    for (const { name, shape, parameters } of found.weights) {
      const key = `${name.replace(/\.\d+\./, ".*.")} ${shape}`;
      const row = merged.get(key) || { name: name.replace(/\.\d+\./, ".*."), shape, n: 0, parameters: 0 };
      row.n += 1;
      row.parameters += parameters;
      merged.set(key, row);
    }
    const rows = [...merged.values()].map((row) => h("tr", null, h("td", { class: "mono" }, row.name), h("td", { class: "n" }, row.shape.map((one) => one.toLocaleString("en")).join(" × ")), h("td", { class: "n" }, row.n > 1 ? `× ${row.n}` : ""), h("td", { class: "n" }, row.parameters.toLocaleString("en")), h("td", { class: "n" }, percent(row.parameters / found.total))));
    const head = h("tr", null, ["weight", "shape", "layers", "parameters", "share"].map((one, place) => h("th", { scope: "col", class: place ? "n" : "" }, one)));
    return panel("By weight", h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Weights" }, h("table", null, h("thead", null, head), h("tbody", null, rows))), { name: "weights" });
  }
}
