// Parts that several views share: panels with export, inputs, sliders, and the page's questions to its server.

import { h } from "./dom.js";
import { savePng, saveSvg } from "./snapshot.js";

const LARGEST = 1024 * 1024; // bytes that the server reads

/** Ask the server; throws an Error with its one line. A JSON answer comes back as a value, any other as an ArrayBuffer. */
export async function ask(path, body, signal) {
  const raw = body instanceof ArrayBuffer;
  const sent = raw || body === undefined ? body : JSON.stringify(body);
  if ((raw ? body.byteLength : (sent || "").length) > LARGEST) throw new Error("that is more than the 1,024 KiB that this page reads at once; give it a part");
  const headers = { "content-type": raw ? "application/octet-stream" : "application/json" };
  let answer;
  try {
    answer = await fetch(`/api/${path}`, body === undefined ? { signal } : { method: "POST", headers, body: sent, signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("the server does not answer; is `suite explore` still running?");
  }
  const json = (answer.headers.get("content-type") || "").includes("json");
  const content = json ? await answer.json() : await answer.arrayBuffer();
  if (!answer.ok) throw new Error((json && content.error) || `the server failed (${answer.status})`);
  return content;
}

/** The header and the bytes of a packed answer. */
export function unpack(buffer) {
  const size = new DataView(buffer).getUint32(0, true);
  return { ...JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size))), cells: new Uint8Array(buffer, 4 + size) };
}

/** A panel with a heading, a figure, and buttons that save it. */
export function panel(title, content, { note, name, extra } = {}) {
  const figure = h("div", { class: "figure" }, content);
  const file = `suite-${name || title.toLowerCase().replace(/\W+/g, "-")}`;
  const buttons = h("div", { class: "export" },
    h("button", { type: "button", class: "quiet", "aria-label": `Save ${title} as SVG`, onclick: () => saveSvg(figure, file) }, "SVG"),
    h("button", { type: "button", class: "quiet", "aria-label": `Save ${title} as PNG`, onclick: () => savePng(figure, file) }, "PNG"));
  return h("section", { class: "panel" }, h("div", { class: "head" }, h("h2", null, title), buttons), note && h("p", { class: "note" }, note), extra, figure);
}

/** Wait until nothing has changed for a while. */
export function later(wait, act) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => act(...given), wait);
  };
}

let made = 0;

/** A labelled text area; `change` is called as the text is typed. */
export function textArea(label, value, change, rows = 2) {
  const id = `text-${(made += 1)}`;
  const area = h("textarea", { id, rows, spellcheck: "false", value });
  area.addEventListener("input", later(350, () => change(area.value)));
  return { area, node: h("div", null, h("label", { class: "label", for: id }, label), area) };
}

/** A labelled slider over a list of values, or over numbers from min to max. */
export function slider(label, { value, min, max, step, show, change, at }) {
  const id = `slider-${(made += 1)}`;
  const output = h("output", { for: id }, show(at ? at(value) : value));
  const told = later(120, change);
  const input = h("input", { id, type: "range", min, max, step });
  input.value = value;
  input.setAttribute("aria-valuetext", output.textContent);
  input.addEventListener("input", () => {
    const chosen = Number(input.value);
    output.textContent = show(at ? at(chosen) : chosen);
    input.setAttribute("aria-valuetext", output.textContent);
    told(chosen);
  });
  return h("div", { class: "slider" }, h("label", { for: id }, label), output, input);
}

/** Buttons of which one is chosen. */
export function segments(label, options, chosen, change) {
  const group = h("div", { class: "seg", role: "group", "aria-label": label });
  for (const { value, text } of options) {
    group.append(h("button", { type: "button", "aria-pressed": String(value === chosen), onclick: (event) => {
      for (const one of group.children) one.setAttribute("aria-pressed", String(one === event.currentTarget));
      change(value);
    } }, text));
  }
  return group;
}

export function checkbox(label, checked, change) {
  return h("label", { class: "check" }, h("input", { type: "checkbox", checked, onchange: (event) => change(event.target.checked) }), label);
}

/** A place for a view's results: shows them, or one line that says what went wrong. Newer questions overtake older ones. */
export function results(context) {
  const node = h("div", null);
  let current = null;
  return {
    node,
    async show(work, done = "") {
      current?.abort();
      const own = (current = new AbortController());
      context.signal.addEventListener("abort", () => own.abort(), { once: true });
      node.setAttribute("aria-busy", "true");
      const slow = setTimeout(() => node.classList.add("busy"), 150);
      try {
        const content = await work(own.signal);
        if (own.signal.aborted) return;
        if (content) node.replaceChildren(...[content].flat(Infinity).filter(Boolean));
        context.say(done);
      } catch (error) {
        if (error.name === "AbortError" || own.signal.aborted) return;
        node.replaceChildren(h("p", { class: "alert", role: "alert" }, error.message));
        if (!(error.constructor === Error)) throw error;
      } finally {
        clearTimeout(slow);
        if (own === current) { node.classList.remove("busy"); node.removeAttribute("aria-busy"); }
      }
    },
  };
}
