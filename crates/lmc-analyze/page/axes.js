// Scales and axes.

// Round numbers that cover a range, about `count` of them.
function linearTicks(low, high, count) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const raw = span / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * ([1, 2, 2.5, 5].find((factor) => factor * power >= raw * 0.999) ?? 10);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i += 1) {
    ticks.push(Number((i * step).toPrecision(12)));
  }
  return ticks;
}

function logTicks(low, high, room) {
  const count = room * 1.5;
  const [from, to] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const factors = [[1, 2, 5], [1, 3], [1]].find(
    (some) => some.length * Math.log10(high / low) <= count,
  );
  const every = factors ? 1 : Math.ceil(Math.log10(high / low) / count);
  const ticks = [];
  for (let power = from; power <= to; power += every) {
    for (const factor of factors ?? [1]) {
      const tick = factor * 10 ** power;
      if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(tick);
    }
  }
  return ticks;
}

const MINUTE = 60e3;
const HOUR = 3600e3;
const DAY = 86400e3;
function timeTicks(low, high, count) {
  const raw = (high - low) / Math.max(1, count);
  const steps = [1, 2, 5, 10, 30].map((n) => n * MINUTE);
  steps.push(...[1, 2, 6, 12].map((n) => n * HOUR), ...[1, 2, 7, 14, 30, 91, 365].map((n) => n * DAY));
  const step = steps.find((some) => some >= raw) ?? Math.ceil(raw / (365 * DAY)) * 365 * DAY;
  const ticks = [];
  for (let t = Math.ceil(low / step) * step; t <= high; t += step) ticks.push(t);
  return ticks;
}

// A scale of a kind ("linear", "log", "time") over a range of values.
function scale(kind, low, high) {
  let [from, to] = [low, high];
  if (!(to > from)) [from, to] = kind === "log" ? [low / 2, high * 2] : [low - 0.5, high + 0.5];
  const f = kind === "log" ? Math.log : (value) => value;
  const place = (a, b) => (value) => a + ((f(value) - f(from)) / (f(to) - f(from))) * (b - a);
  const ticks = { linear: linearTicks, log: logTicks, time: timeTicks }[kind];
  return { kind, from, to, place, ticks: (count) => ticks(from, to, count) };
}

// A linear scale from round number to round number.
function roundScale(low, high) {
  const [from, to] = high > low ? [low, high] : [low - 0.5, high + 0.5];
  const ticks = linearTicks(from, to, 5);
  const step = ticks.length > 1 ? ticks[1] - ticks[0] : to - from;
  return scale(
    "linear",
    Number((Math.floor(from / step + 1e-9) * step).toPrecision(12)),
    Number((Math.ceil(to / step - 1e-9) * step).toPrecision(12)),
  );
}

const textWidth = (text) => Array.from(text).length * 6.7;

// Draws the axes of a chart and returns where its values go: {x, y, left, right, top, bottom}.
// An axis is {scale, label, format, ticks}.
function axes(svg, width, height, xAxis, yAxis) {
  const bottom = height - 40;
  const top = 26;
  const yTicks = yAxis.ticks ?? yAxis.scale.ticks(5);
  const yTexts = yTicks.map(yAxis.format);
  const left = Math.ceil(Math.max(24, ...yTexts.map(textWidth)) + 12);
  const right = width - 14;
  const x = xAxis.scale.place(left, right);
  const y = yAxis.scale.place(bottom, top);
  const grid = svgEl("g", { class: "axes" });
  yTicks.forEach((tick, i) => {
    const at = Math.round(y(tick)) + 0.5;
    grid.append(
      svgEl("path", { class: "grid", d: `M${left} ${at}H${right}` }),
      svgEl("text", { x: left - 8, y: at + 4, "text-anchor": "end" }, yTexts[i]),
    );
  });
  let after = -Infinity;
  const xTicks = xAxis.ticks ?? xAxis.scale.ticks(Math.max(2, (right - left) / 90));
  for (const tick of xTicks) {
    const text = xAxis.format(tick);
    const half = textWidth(text) / 2;
    const at = x(tick);
    grid.append(svgEl("path", { class: "tick", d: `M${Math.round(at) + 0.5} ${bottom}v4` }));
    if (at - half < after + 8) continue;
    const middle = Math.max(half, Math.min(at, width - half));
    after = middle + half;
    grid.append(svgEl("text", { x: middle, y: bottom + 18, "text-anchor": "middle" }, text));
  }
  grid.append(
    svgEl("path", { class: "base", d: `M${left} ${bottom + 0.5}H${right}` }),
    svgEl("text", { class: "axis", x: 0, y: 12 }, yAxis.label),
    svgEl("text", { class: "axis", x: right, y: height - 4, "text-anchor": "end" }, xAxis.label),
  );
  svg.append(grid);
  return { x, y, left, right, top, bottom };
}
