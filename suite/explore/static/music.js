// View 5: music. A piano roll with sound; from a chosen note, arcs to those that each head looked at.

import { dark, headColour, colour } from "./colour.js";
import { count, h, percent, s } from "./dom.js";
import { ask, checkbox, panel, results, segments } from "./parts.js";
import { saveBytes } from "./snapshot.js";
import { play } from "./sound.js";

export const title = "Music";
export const lede = "What the model plays, or you do. Choose a note to see the notes that each head looked at when the model chose it.";
export const tasks = ["music"];
const NAMES = ["C", "C♯", "D", "D♯", "E", "F", "F♯", "G", "G♯", "A", "A♯", "B"];
const noteName = (pitch) => `${NAMES[pitch % 12]}${Math.floor(pitch / 12) - 1}`;
const KEY = 7, LEFT = 46; // pixels a semitone, and beside the roll

export function mount(root, context) {
  const { params, model } = context;
  let piece = { tokens: [], notes: [], seconds: 0 }, chosen = null, layer = Number(params.get("layer") || 1) % model.config.n_layer;
  let seconds = Number(params.get("seconds") || 8), seed = Number(params.get("seed") || 1), gap = null, hidden = new Set();
  let stop = null, found = null, roll = null;
  const out = results(context), arcs = results(context);
  const field = (label, value, change, more) => h("label", { class: "check" }, label, h("input", { type: "number", value, ...more, onchange: (event) => change(Number(event.target.value)) }));
  const act = (label, work, main) => h("button", { type: "button", class: main ? "main" : "", onclick: work }, label);
  const upload = h("label", { class: "file" }, h("span", null, "Open MIDI"), h("input", { type: "file", accept: ".mid,.midi", onchange: (event) => event.target.files[0] && open(event.target.files[0]) }));
  const player = act("Play", toggle);
  const fill = act("Fill the gap", () => generate({ gap }));
  root.append(
    h("div", { class: "row" }, act("New piece", () => generate({ tokens: [] }), true), act("Continue", () => generate({})), fill, upload,
      field("Seconds", seconds, (value) => { seconds = value; context.set({ seconds }); }, { min: 1, max: 60 }), field("Seed", seed, (value) => { seed = value; context.set({ seed }); }, { min: 0, max: 2 ** 31 })),
    out.node, arcs.node,
    h("p", { class: "keys" }, h("kbd", null, "←"), " ", h("kbd", null, "→"), " note by note · ", h("kbd", null, "Space"), " play or stop · ", h("kbd", null, "["), " and ", h("kbd", null, "]"), " set a gap from the chosen note to another"));
  context.signal.addEventListener("abort", () => stop?.());
  generate({ tokens: [] });

  function take(answer) {
    stop?.();
    piece = answer;
    gap = null;
    found = null;
    chosen = Math.min(Number(params.get("note") ?? piece.notes.length - 1), piece.notes.length - 1);
    roll = draw();
    if (piece.notes.length) choose(chosen);
    else arcs.node.replaceChildren();
    return [panel("Piano roll", roll.node, { name: "piano-roll", note: `${count(piece.notes.length, "note")}, ${piece.seconds.toFixed(1)} s. ${(piece.notices || []).join("; ")}`,
      extra: h("div", { class: "row" }, player, h("button", { type: "button", onclick: download }, "Save MIDI")) })];
  }

  function generate({ tokens = piece.tokens, gap: inside } = {}) {
    out.show(async (signal) => take(await context.ask("music/play", { tokens, seconds, seed, gap: inside ?? undefined }, signal)), "New music");
  }

  function open(file) {
    if (file.size > 1024 * 1024) {
      out.show(async () => { throw new Error("the file is larger than 1 MiB; give a part of it"); });
      return;
    }
    out.show(async (signal) => take(await ask(`music/open?model=${encodeURIComponent(model.name)}`, await file.arrayBuffer(), signal)), `Opened ${file.name}`);
  }

  async function download() {
    saveBytes(await context.ask("music/midi", { tokens: piece.tokens }, context.signal), "suite.mid", "audio/midi");
  }

  function toggle() {
    if (stop) { stop(); return; }
    player.textContent = "Stop";
    const from = chosen !== null && chosen < piece.notes.length - 1 ? piece.notes[chosen].start : 0;
    stop = play(piece.notes, from, (time) => roll.at(time), () => { stop = null; player.textContent = "Play"; roll.at(null); });
  }

  function choose(place) {
    chosen = Math.max(0, Math.min(place, piece.notes.length - 1));
    context.set({ note: chosen === piece.notes.length - 1 ? null : chosen, layer });
    const note = piece.notes[chosen];
    roll.mark(chosen);
    arcs.show(async (signal) => {
      found = await context.ask("music/attend", { tokens: piece.tokens, note: chosen, layer }, signal);
      roll.arcs();
      return about();
    }, `${noteName(note.pitch)} at ${note.start.toFixed(2)} s`);
  }

  function about() {
    const note = piece.notes[chosen];
    const rows = found.heads.map((head, place) => {
      const first = head.notes.slice(0, 4).map((one) => `${noteName(piece.notes[one.note].pitch)} at ${piece.notes[one.note].start.toFixed(2)} s ${percent(one.share, 0)}`);
      const show = checkbox(`head ${place}`, !hidden.has(place), (on) => { if (on) hidden.delete(place); else hidden.add(place); roll.arcs(); });
      return h("tr", null, h("td", null, h("i", { class: "swatch", style: { "background-color": headColour(place, found.heads.length) } }), show), h("td", null, first.join(", ") || "no note"), h("td", { class: "n" }, percent(head.elsewhere, 0)));
    });
    const table = h("table", { class: "legend-table" }, h("thead", null, h("tr", null, h("th", { scope: "col" }, "head"), h("th", { scope: "col" }, "looked at"), h("th", { scope: "col", class: "n" }, "time, dynamics, start"))), h("tbody", null, rows));
    const layers = segments("Layer", Array.from({ length: model.config.n_layer }, (_, value) => ({ value, text: String(value) })), layer, (value) => { layer = value; choose(chosen); });
    return panel(`${noteName(note.pitch)} at ${note.start.toFixed(2)} s`, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Heads" }, table), { name: "heads-of-a-note", extra: h("div", { class: "row" }, h("span", { class: "faint" }, "Layer"), layers),
      note: `Layer ${found.layer}, when the model had read ${count(found.read, "event")} and the note came next. A note’s share is that of its start, its end and its dynamics.` });
  }

  function draw() {
    const pitches = piece.notes.map((note) => note.pitch);
    const low = Math.min(60, ...pitches) - 3, high = Math.max(72, ...pitches) + 3;
    const room = root.clientWidth - 60 - LEFT; // a short piece fills the panel, a long one scrolls
    const SCALE = Math.max(60, Math.min(180, room / (piece.seconds + 0.5)));
    const width = LEFT + Math.max(piece.seconds + 0.5, 4) * SCALE, height = (high - low + 1) * KEY + 60, top = 34;
    const x = (time) => LEFT + time * SCALE, y = (pitch) => top + (high - pitch) * KEY;
    const drawing = s("svg", { width, height, "aria-hidden": "true" });
    for (let pitch = low; pitch <= high; pitch += 1) {
      if ([1, 3, 6, 8, 10].includes(pitch % 12)) drawing.append(s("rect", { x: LEFT, y: y(pitch), width: width - LEFT, height: KEY, fill: dark() ? "#ffffff" : "#000000", "fill-opacity": 0.035 }));
      if (pitch % 12 === 0) drawing.append(s("text", { x: LEFT - 8, y: y(pitch) + 7, "text-anchor": "end" }, noteName(pitch)), s("line", { class: "axis", x1: LEFT, x2: width, y1: y(pitch) + KEY, y2: y(pitch) + KEY }));
    }
    for (let time = 0; time <= piece.seconds; time += 1) drawing.append(s("line", { class: "axis", x1: x(time), x2: x(time), y1: top, y2: height - 24 }), time % 2 ? "" : s("text", { x: x(time), y: height - 8, "text-anchor": "middle" }, `${time} s`));
    const opening = s("rect", { y: top, height: height - 24 - top, fill: "currentColor", "fill-opacity": 0.08, visibility: "hidden" });
    const bars = piece.notes.map((note, place) => s("rect", { class: "n", x: x(note.start), y: y(note.pitch), width: Math.max((note.end - note.start) * SCALE - 1, 2), height: KEY - 1, rx: 2, fill: colour("weight", 0.2 + 0.45 * (note.velocity / 127)), onclick: () => choose(place) }, s("title", null, `${noteName(note.pitch)}, ${note.start.toFixed(2)} to ${note.end.toFixed(2)} s, velocity ${note.velocity}`)));
    const lines = s("g", { fill: "none" }), cursor = s("line", { y1: top, y2: height - 24, stroke: "currentColor", visibility: "hidden" });
    drawing.append(opening, ...bars, lines, cursor);
    const node = h("div", { class: "roll", tabindex: "0", role: "group", "aria-label": `Piano roll, ${count(piece.notes.length, "note")}; the arrow keys choose one` }, drawing);
    node.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step && piece.notes.length) choose(chosen + step);
      else if (event.key === " ") toggle();
      else if ((event.key === "[" || event.key === "]") && piece.notes.length) {
        const at = piece.notes[chosen].start;
        gap = event.key === "[" ? [at, Math.max(gap?.[1] ?? 0, at + 0.5)] : [Math.min(gap?.[0] ?? at - 0.5, at - 0.1), at];
        gap = [Math.max(0, gap[0]), gap[1]];
        show();
        context.say(`Gap from ${gap[0].toFixed(2)} to ${gap[1].toFixed(2)} s`);
      } else return;
      event.preventDefault();
    });
    const show = () => {
      fill.disabled = !gap;
      opening.setAttribute("visibility", gap ? "visible" : "hidden");
      if (gap) { opening.setAttribute("x", x(gap[0])); opening.setAttribute("width", (gap[1] - gap[0]) * SCALE); }
    };
    show();
    return {
      node,
      at(time) {
        cursor.setAttribute("visibility", time === null ? "hidden" : "visible");
        if (time === null) return;
        for (const end of ["x1", "x2"]) cursor.setAttribute(end, x(time));
        if (x(time) > node.scrollLeft + node.clientWidth - 40) node.scrollLeft = x(time) - 80;
      },
      mark(place) {
        bars.forEach((bar, at) => {
          bar.setAttribute("stroke", at === place ? "currentColor" : "none");
          bar.setAttribute("stroke-width", at === place ? 2 : 0);
        });
        const centre = x(piece.notes[place].start);
        if (centre < node.scrollLeft + LEFT || centre > node.scrollLeft + node.clientWidth - 30) node.scrollLeft = centre - node.clientWidth * 0.75;
        lines.replaceChildren();
      },
      arcs() {
        const to = piece.notes[chosen], shapes = [];
        found.heads.forEach((head, place) => {
          if (hidden.has(place)) return;
          for (const { note, share } of head.notes) {
            if (share < 0.02) continue;
            const from = piece.notes[note], [ax, ay, bx, by] = [x(from.start) + 2, y(from.pitch) + KEY / 2, x(to.start) + 2, y(to.pitch) + KEY / 2];
            const rise = Math.min(ay, by) - Math.min(14 + (bx - ax) * (0.22 + 0.05 * place), Math.min(ay, by) - 6);
            shapes.push(s("path", { d: `M${ax} ${ay}C${ax + (bx - ax) * 0.2} ${rise} ${bx - (bx - ax) * 0.2} ${rise} ${bx} ${by}`, stroke: headColour(place, found.heads.length), "stroke-width": 1.2 + 4.5 * share, opacity: 0.5 + 0.5 * share, "stroke-linecap": "round" }));
          }
        });
        lines.replaceChildren(...shapes);
      },
    };
  }
}
