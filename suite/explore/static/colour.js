// Colour scales in OKLCH: equal steps of a number are equal steps of lightness, in both themes.

export const dark = () => document.documentElement.dataset.theme === "dark";

const lab = ([l, c, hue]) => [l, c * Math.cos((hue * Math.PI) / 180), c * Math.sin((hue * Math.PI) / 180)];

function rgb(l, a, b) {
  const [x, y, z] = [
    l + 0.3963377774 * a + 0.2158037573 * b, l - 0.1055613458 * a - 0.0638541728 * b, l - 0.0894841775 * a - 1.291485548 * b,
  ].map((one) => one ** 3);
  return [
    4.0767416621 * x - 3.3077115913 * y + 0.2309699292 * z,
    -1.2684380046 * x + 2.6097574011 * y - 0.3413193965 * z,
    -0.0041960863 * x - 0.7034186147 * y + 1.707614701 * z,
  ].map((one) => {
    const light = one <= 0.0031308 ? 12.92 * one : 1.055 * one ** (1 / 2.4) - 0.055;
    return Math.round(255 * Math.min(1, Math.max(0, light)));
  });
}

const mix = (from, to, t) => from + (to - from) * t;
const between = (given) => (t) => {
  const stops = given.map(lab); // between the stops in straight lines, so that a neutral middle has no hue of its own
  const at = Math.min(Math.max(t, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(at), stops.length - 2);
  return rgb(...stops[low].map((from, place) => mix(from, stops[low + 1][place], at - low)));
};

// [lightness, chroma, hue], lightness in even steps
const SCALES = {
  weight: {
    light: [[0.985, 0.006, 200], [0.845, 0.06, 205], [0.705, 0.095, 222], [0.565, 0.115, 240], [0.425, 0.12, 262], [0.285, 0.1, 280]],
    dark: [[0.22, 0.014, 262], [0.352, 0.07, 262], [0.484, 0.1, 240], [0.616, 0.105, 215], [0.748, 0.105, 190], [0.88, 0.11, 160]],
  },
  surprise: { // the text stands on it, so it never gets dark (or, in the dark, bright)
    light: [[0.99, 0.004, 90], [0.925, 0.05, 82], [0.86, 0.09, 68], [0.795, 0.115, 52], [0.73, 0.13, 40]],
    dark: [[0.22, 0.013, 262], [0.275, 0.03, 50], [0.33, 0.06, 48], [0.385, 0.085, 42], [0.44, 0.11, 36]],
  },
  signed: {
    light: [[0.45, 0.13, 255], [0.6, 0.11, 250], [0.78, 0.06, 240], [0.96, 0.006, 90], [0.8, 0.075, 60], [0.64, 0.125, 48], [0.48, 0.13, 40]],
    dark: [[0.82, 0.1, 235], [0.64, 0.11, 245], [0.45, 0.07, 252], [0.27, 0.012, 262], [0.45, 0.065, 50], [0.64, 0.115, 52], [0.82, 0.11, 65]],
  },
  shade: { // behind text: which way a token pulls
    light: [[0.82, 0.085, 245], [0.91, 0.045, 242], [0.99, 0.003, 90], [0.91, 0.05, 62], [0.82, 0.095, 55]],
    dark: [[0.42, 0.09, 245], [0.32, 0.05, 250], [0.22, 0.013, 262], [0.32, 0.05, 48], [0.42, 0.085, 46]],
  },
};

const tables = new Map();

/** 256 colours of a scale as [r, g, b], for the theme that is on. */
export function table(name) {
  const key = `${name} ${dark()}`;
  if (!tables.has(key)) {
    const at = between(SCALES[name][dark() ? "dark" : "light"]);
    tables.set(key, Array.from({ length: 256 }, (_, place) => at(place / 255)));
  }
  return tables.get(key);
}

/** The colour of a number from 0 to 1 (signed scales: from -1 to 1). */
export function colour(name, t) {
  const at = name === "signed" || name === "shade" ? (t + 1) / 2 : t;
  return `rgb(${table(name)[Math.round(255 * Math.min(Math.max(at, 0), 1))].join(" ")})`;
}

/** Ink that is readable on a colour of the scale: black or white, whichever has more contrast (4.5 at the least). */
export function inkOn(name, t) {
  const light = table(name)[Math.round(255 * Math.min(Math.max(t, 0), 1))]
    .map((one) => (one / 255 <= 0.04045 ? one / 255 / 12.92 : ((one / 255 + 0.055) / 1.055) ** 2.4))
    .reduce((sum, one, at) => sum + one * [0.2126, 0.7152, 0.0722][at], 0);
  return (light + 0.05) / 0.05 > 1.05 / (light + 0.05) ? "#000" : "#fff";
}

/** Colours of heads: equally light, and far apart in hue. */
export function headColour(head, heads) {
  const hue = 35 + (360 * head) / Math.max(heads, 4);
  return `rgb(${rgb(...lab([dark() ? 0.77 : 0.56, 0.13, hue])).join(" ")})`;
}

/** A ramp for a legend. */
export function ramp(name) {
  const canvas = document.createElement("canvas");
  canvas.className = "ramp";
  canvas.width = 256;
  canvas.height = 1;
  const context = canvas.getContext("2d");
  table(name).forEach(([r, g, b], x) => {
    context.fillStyle = `rgb(${r} ${g} ${b})`;
    context.fillRect(x, 0, 1, 1);
  });
  return canvas;
}
