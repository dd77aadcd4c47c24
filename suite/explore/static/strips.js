// Vectors as strips of colour, with their numbers on demand.

import { table } from "./colour.js";
import { count, h, short } from "./dom.js";

const LISTED = 1024; // numbers that are written out

/** A vector: a cell a number, blue below zero and orange above; the strongest colour is the largest magnitude. */
export function strip(label, values, { largest } = {}) {
  const known = values.map((one) => one ?? 0);
  const most = largest || Math.max(...known.map(Math.abs), 1e-9);
  const canvas = h("canvas", { width: known.length, height: 1, role: "img", "aria-label": `${label}: ${count(known.length, "number")}, largest magnitude ${short(most)}` });
  const image = new ImageData(known.length, 1), colours = table("signed");
  known.forEach((one, place) => image.data.set([...colours[Math.round(127.5 + 127.5 * Math.max(-1, Math.min(1, one / most)))], 255], 4 * place));
  canvas.getContext("2d").putImageData(image, 0, 0);
  const norm = Math.sqrt(known.reduce((sum, one) => sum + one * one, 0));
  const summary = `${known.length} numbers, length ${short(norm)}`;
  const told = h("span", null, summary);
  canvas.addEventListener("mousemove", (event) => {
    const box = canvas.getBoundingClientRect();
    const place = Math.min(known.length - 1, Math.floor(((event.clientX - box.left) / box.width) * known.length));
    told.textContent = `number ${place}: ${short(values[place])}`;
  });
  canvas.addEventListener("mouseleave", () => { told.textContent = summary; });
  const list = h("p", { class: "nums", tabindex: "0", role: "region", "aria-label": `${label}, the numbers` });
  const more = h("details", { ontoggle: () => {
    if (!list.textContent) list.textContent = values.slice(0, LISTED).map(short).join("  ") + (values.length > LISTED ? `  … ${values.length - LISTED} more` : "");
  } }, h("summary", null, "numbers"), list);
  return h("div", { class: "strip" }, h("div", { class: "cap" }, h("span", null, label), told), canvas, more);
}
