// Attention weights on canvases. A byte of 255 is a cell that the query may not see: hatched, which no weight is.

import { dark, table } from "./colour.js";
import { h } from "./dom.js";

export const MASKED = 255;
const hatches = new Map();

function hatch(context) {
  const key = String(dark());
  if (!hatches.has(key)) {
    const tile = h("canvas", { width: 6, height: 6 });
    const brush = tile.getContext("2d");
    brush.fillStyle = dark() ? "#20232b" : "#f3f2ef";
    brush.fillRect(0, 0, 6, 6);
    brush.strokeStyle = dark() ? "#3a3e49" : "#d9d6cf";
    brush.lineWidth = 1;
    for (const shift of [-6, 0, 6]) {
      brush.beginPath();
      brush.moveTo(shift, 6);
      brush.lineTo(shift + 6, 0);
      brush.stroke();
    }
    hatches.set(key, tile);
  }
  return context.createPattern(hatches.get(key), "repeat");
}

/** Draw size * size bytes, a row a query, into a canvas of `pixels` a side. */
export function drawWeights(canvas, cells, size, pixels) {
  canvas.width = canvas.height = pixels;
  const context = canvas.getContext("2d");
  context.fillStyle = hatch(context);
  context.fillRect(0, 0, pixels, pixels);
  const colours = table("weight");
  const image = new ImageData(size, size);
  for (let place = 0; place < size * size; place += 1) {
    const cell = cells[place];
    if (cell === MASKED) continue;
    // the root shows small weights, which most are
    const [r, g, b] = colours[Math.round(255 * Math.sqrt(cell / 254))];
    image.data.set([r, g, b, 255], 4 * place);
  }
  const small = h("canvas", { width: size, height: size });
  small.getContext("2d").putImageData(image, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(small, 0, 0, pixels, pixels);
}
