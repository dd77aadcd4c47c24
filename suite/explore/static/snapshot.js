// A figure as SVG or PNG: the boxes, words, canvases and drawings that are on the page, in the theme that is on.

import { h, s } from "./dom.js";

const NS = "http://www.w3.org/2000/svg";
const LOOKS = ["fill", "stroke", "stroke-width", "stroke-linecap", "stroke-dasharray", "opacity", "fill-opacity", "stroke-opacity", "font-family", "font-size", "font-weight", "text-anchor", "dominant-baseline"];
const known = new Map();
const brush = document.createElement("canvas").getContext("2d", { willReadFrequently: true });

/** Any CSS colour as [#rrggbb, opacity], which every program that reads SVG knows. */
function hex(colour) {
  if (!known.has(colour)) {
    brush.clearRect(0, 0, 1, 1);
    brush.fillStyle = colour;
    brush.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = brush.getImageData(0, 0, 1, 1).data;
    known.set(colour, [`#${[r, g, b].map((one) => one.toString(16).padStart(2, "0")).join("")}`, a / 255]);
  }
  return known.get(colour);
}

/** The figure as an SVG element. */
export function snapshot(root) {
  const frame = root.getBoundingClientRect();
  const width = Math.ceil(Math.max(root.scrollWidth, frame.width)), height = Math.ceil(frame.height), pad = 16;
  const size = { width: width + 2 * pad, height: height + 2 * pad };
  const out = s("svg", { xmlns: NS, ...size, viewBox: `0 0 ${size.width} ${size.height}` });
  out.append(s("rect", { ...size, fill: hex(getComputedStyle(root.closest(".panel") || document.body).backgroundColor)[0] }));
  const group = s("g", { transform: `translate(${pad} ${pad})` });
  out.append(group);
  for (const child of root.children) draw(child, group, frame);
  return out;
}

function draw(node, out, frame) {
  const look = getComputedStyle(node);
  if (node.matches(".export, .keys, .unseen, details, input, select") || look.display === "none" || look.visibility === "hidden") return;
  const box = node.getBoundingClientRect();
  const at = { x: round(box.left - frame.left), y: round(box.top - frame.top), width: round(box.width), height: round(box.height) };
  if (node.localName === "canvas") {
    out.append(s("image", { ...at, href: node.toDataURL(), preserveAspectRatio: "none", style: { "image-rendering": "pixelated" } }));
    return;
  }
  if (node.localName === "svg") {
    out.append(inlined(node, at));
    return;
  }
  const [fill, opacity] = hex(look.backgroundColor);
  const outline = look.outlineStyle !== "none" && parseFloat(look.outlineWidth) > 0 && node !== document.activeElement;
  if (opacity > 0 || outline) {
    out.append(s("rect", { ...at, rx: parseFloat(look.borderTopLeftRadius) || 0, fill: opacity ? fill : "none", "fill-opacity": opacity || 1,
      stroke: outline ? hex(look.outlineColor)[0] : "none", "stroke-width": outline ? 2 : 0 }));
  }
  if (look.backgroundImage !== "none") out.append(s("rect", { ...at, fill: hex(look.color)[0], "fill-opacity": 0.12 }));
  const under = parseFloat(look.borderBottomWidth);
  if (under && look.borderBottomStyle !== "none" && hex(look.borderBottomColor)[1]) {
    const y = at.y + at.height;
    out.append(s("line", { x1: at.x, x2: at.x + at.width, y1: y, y2: y, stroke: hex(look.borderBottomColor)[0], "stroke-width": under }));
  }
  for (const child of node.childNodes) {
    if (child.nodeType === Node.ELEMENT_NODE) draw(child, out, frame);
    else if (child.nodeType === Node.TEXT_NODE && child.data.trim()) words(child, look, out, frame);
  }
}

const round = (n) => Math.round(n * 100) / 100;

function words(node, look, out, frame) {
  const range = document.createRange();
  let line = null;
  const flush = () => {
    if (!line || !line.text.trim()) return;
    const size = parseFloat(look.fontSize);
    out.append(s("text", { x: round(line.left - frame.left), y: round(line.bottom - frame.top - (line.height - size) / 2 - size * 0.2), fill: hex(look.color)[0],
      "font-family": look.fontFamily, "font-size": look.fontSize, "font-weight": look.fontWeight, "xml:space": "preserve",
      "text-decoration": look.textDecorationLine.includes("line-through") ? "line-through" : undefined, textLength: line.text.length > 1 ? round(line.right - line.left) : undefined }, line.text));
  };
  for (let place = 0; place < node.data.length; place += 1) {
    range.setStart(node, place);
    range.setEnd(node, place + 1);
    const box = range.getBoundingClientRect();
    if (!box.width) continue;
    if (!line || Math.abs(box.top - line.top) > 3) {
      flush();
      line = { text: "", left: box.left, top: box.top, bottom: box.bottom, height: box.height, right: box.right };
    }
    line.text += node.data[place] === "\n" ? " " : node.data[place];
    line.right = box.right;
  }
  flush();
}

function inlined(svg, at) {
  const copy = svg.cloneNode(true);
  const originals = [svg, ...svg.querySelectorAll("*")], copies = [copy, ...copy.querySelectorAll("*")];
  originals.forEach((node, place) => {
    const look = getComputedStyle(node), clone = copies[place];
    for (const name of LOOKS) {
      const value = look.getPropertyValue(name);
      if (!value) continue;
      const paints = name === "fill" || name === "stroke";
      clone.setAttribute(name, paints && value !== "none" && !value.startsWith("url") ? hex(value)[0] : value);
    }
    for (const name of ["class", "style", "tabindex", "role"]) clone.removeAttribute(name);
  });
  for (const [name, value] of Object.entries(at)) copy.setAttribute(name, value);
  copy.setAttribute("overflow", "visible");
  return copy;
}

function save(blob, name) {
  const link = h("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

export const saveBytes = (content, name, type) => save(new Blob([content], { type }), name);

// what no XML may hold: control characters, and halves of characters
const allowed = (text) => text.toWellFormed().replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");

const file = (root) => new Blob([allowed(new XMLSerializer().serializeToString(snapshot(root)))], { type: "image/svg+xml" });

export const saveSvg = (root, name) => save(file(root), `${name}.svg`);

export async function savePng(root, name) {
  const address = URL.createObjectURL(file(root));
  const image = new Image();
  image.src = address;
  await image.decode();
  const canvas = h("canvas", { width: image.naturalWidth * 2, height: image.naturalHeight * 2 });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(address);
  canvas.toBlob((blob) => save(blob, `${name}.png`), "image/png");
}
