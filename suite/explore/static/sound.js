// A small piano for the browser: a few partials a note that die away, high ones sooner.

let context = null;

/** Play notes ({ pitch, velocity, start, end } in seconds) from a time on; `tick` gets the time, `done` is called at the end. */
export function play(notes, from, tick, done) {
  context ??= new AudioContext();
  context.resume();
  const out = context.createGain(), squeeze = context.createDynamicsCompressor();
  out.gain.value = 0.5;
  out.connect(squeeze).connect(context.destination);
  const zero = context.currentTime + 0.08 - from, last = Math.max(0, ...notes.map((note) => note.end));
  const queue = notes.filter((note) => note.end > from + 0.02).sort((a, b) => a.start - b.start);
  let at = 0, frame = 0, stopped = false;
  const step = () => {
    if (stopped) return;
    const now = context.currentTime - zero;
    while (at < queue.length && queue[at].start < now + 0.6) strike(queue[(at += 1) - 1], zero, from, out); // a little ahead, so that long pieces do not start with thousands of oscillators
    tick(Math.max(from, Math.min(now, last)));
    if (now > last + 0.3) stop();
  };
  function stop() {
    if (stopped) return;
    stopped = true;
    clearInterval(frame);
    out.gain.setTargetAtTime(0, context.currentTime, 0.03);
    setTimeout(() => out.disconnect(), 300);
    done();
  }
  frame = setInterval(step, 40);
  step();
  return stop;
}

function strike(note, zero, from, out) {
  const pitch = 440 * 2 ** ((note.pitch - 69) / 12), loud = (note.velocity / 127) ** 1.6 * 0.28;
  const begin = zero + Math.max(note.start, from), end = zero + note.end;
  for (const [multiple, share] of [[1, 1], [2, 0.45], [3, 0.2], [4, 0.09]]) {
    if (pitch * multiple > 9000) continue;
    const tone = context.createOscillator(), gain = context.createGain();
    tone.frequency.value = pitch * multiple * (1 + 0.0003 * multiple * multiple);
    gain.gain.setValueAtTime(0, begin);
    gain.gain.linearRampToValueAtTime(loud * share, begin + 0.006);
    gain.gain.setTargetAtTime(0, begin + 0.006, (1.6 - note.pitch / 110) / multiple);
    gain.gain.setTargetAtTime(0, Math.max(end, begin + 0.03), 0.07);
    tone.connect(gain).connect(out);
    tone.start(begin);
    tone.stop(end + 0.6);
  }
}
