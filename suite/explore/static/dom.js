// Elements. Text always becomes a text node, so that a token such as "</script>" is shown and never parsed.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, of] of Object.entries(value)) node.style.setProperty(key, of);
    else if (name === "value" || name === "checked" || name === "disabled") node[name] = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

/** An HTML element: h("p", { class: "note" }, "text", child). */
export const h = (tag, props, ...children) => fill(document.createElement(tag), props, children);

/** An SVG element. */
export const s = (tag, props, ...children) => fill(document.createElementNS(SVG, tag), props, children);

/** A share as a percentage that is never rounded to 0 or 100 while it is neither. */
export function percent(share, digits = 1) {
  const least = 10 ** -(digits + 2) / 2;
  if (share > 0 && share < least) return `<${(least * 200).toFixed(digits)}%`;
  if (share < 1 && share > 1 - least) return `>${(100 - least * 200).toFixed(digits)}%`;
  return `${(100 * share).toFixed(digits)}%`;
}

export const count = (n, noun, plural) => `${n.toLocaleString("en")} ${n === 1 ? noun : plural || noun + "s"}`;

/** A number of bytes with its unit. */
export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(Math.floor(Math.log(Math.max(n, 1)) / Math.log(1024)), 4);
  return power ? `${(n / 1024 ** power).toFixed(1)} ${units[power]}` : `${n} B`;
}

/** A number to three digits, with a true minus. */
export function short(n) {
  if (n === null) return "−∞";
  const size = Math.abs(n);
  const text = size >= 100 ? size.toFixed(0) : size >= 10 ? size.toFixed(1) : size >= 0.0995 || !size ? size.toFixed(2) : size.toPrecision(2);
  return (n < 0 ? "−" : "") + text;
}

const SHOWN = { "\n": "⏎", "\r": "␍", "\t": "⇥", " ": "␣" };
const UNSEEN = /[\u0000- \u007f-\u00a0\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g; // also what would turn the direction of the text around it

const seen = (one) => SHOWN[one] || `\\u{${one.codePointAt(0).toString(16)}}`;

/** A token as one word on one line: its spaces and line ends visible. */
export function word(text) {
  const parts = [];
  let done = 0;
  for (const { 0: one, index } of text.matchAll(UNSEEN)) {
    if (index > done) parts.push(text.slice(done, index));
    parts.push(h("span", { class: "sp" }, seen(one)));
    done = index + 1;
  }
  if (done < text.length) parts.push(text.slice(done));
  return parts.length ? parts : [h("span", { class: "sp" }, "∅")];
}

/** The same as plain text, for names and SVG. */
export const plain = (text) => text.replace(UNSEEN, seen) || "∅";

/** A text as it reads, with pictures for control characters, which no XML may hold. */
export const readable = (text) => text.replace(/[\u0000-\u0008\u000b-\u001f]/g, (one) => String.fromCharCode(0x2400 + one.charCodeAt(0))).replace(/\u007f/g, "␡");

/** Arrow keys move between the elements of a group; only one of them is in the tab order. */
export function roving(group, selector, columns = 1) {
  const all = () => [...group.querySelectorAll(selector)];
  const set = (chosen) => all().forEach((one) => one.setAttribute("tabindex", one === chosen ? "0" : "-1"));
  group.addEventListener("keydown", (event) => {
    const found = all();
    const at = found.indexOf(document.activeElement);
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
    const to = event.key === "Home" ? 0 : event.key === "End" ? found.length - 1 : step && at + step;
    if (at < 0 || to === undefined || !found[to]) return;
    event.preventDefault();
    set(found[to]);
    found[to].focus();
  });
  group.addEventListener("focusin", (event) => { if (event.target.matches(selector)) set(event.target); });
  const found = all();
  const pressed = (one) => one.getAttribute("aria-checked") === "true" || one.getAttribute("aria-pressed") === "true";
  set(found.find(pressed) || found[0]);
}
