// Lines over a common x, and points.

// Draws series {name, cls, dash, points: [[x, y]]} over axes {label, format, kind, zero, ticks}.
// Returns what `picture` wants. `name` writes an x for the tooltip, `extra` adds lines to it.
function lineChart({ svg, width }, { series, x, y, name, height = 320, extra }) {
  const clean = series.map((each) => ({
    ...each,
    points: each.points.filter(
      ([a, b]) =>
        num(a) !== null &&
        num(b) !== null &&
        (x.kind !== "log" || a > 0) &&
        (y.kind !== "log" || b > 0),
    ),
  }));
  const all = clean.flatMap((each) => each.points);
  if (all.length === 0) return emptyPlot(svg, width);
  const xs = [...new Set(all.map(([a]) => a))].sort((a, b) => a - b);
  const low = smallest(all.map(([, b]) => b));
  const high = largest(all.map(([, b]) => b));
  const yScale =
    y.kind === "log"
      ? scale("log", y.low ?? low / 1.15, y.high ?? high * 1.15)
      : roundScale(num(y.zero) === null ? low : Math.min(y.zero, low), high);
  const xScale = scale(x.kind ?? "linear", xs[0], xs[xs.length - 1]);
  const ticks = x.ticks ?? (xs.length <= 12 && x.kind !== "time" ? xs : null);
  const place = axes(
    svg,
    width,
    height,
    { scale: xScale, label: x.label, format: x.format, ticks },
    { scale: yScale, label: y.label, format: tick(y.tick ?? y.format) },
  );
  for (const each of clean) {
    const points = each.points.map(([a, b]) => [place.x(a), place.y(b)]);
    svg.append(
      svgEl("path", { class: `line ${each.cls} ${each.dash ?? ""}`, d: pathOf(points) }),
      ...(points.length <= 60
        ? points.map(([a, b]) => svgEl("circle", { class: `dot ${each.cls}`, cx: a, cy: b, r: 3 }))
        : []),
    );
  }
  const byX = clean.map((each) => new Map(each.points));
  const spots = xs.map((value) => {
    const at = place.x(value);
    const here = clean
      .map((each, i) => [each, byX[i].get(value)])
      .filter(([, b]) => b !== undefined);
    return {
      x: at,
      y: Math.min(...here.map(([, b]) => place.y(b))),
      title: name(value),
      lines: [
        ...here.map(([each, b]) => [each.name, y.format(b), each]),
        ...(extra?.(value) ?? []),
      ],
      mark: [
        svgEl("path", { class: "cursor", d: `M${at} ${place.top}V${place.bottom}` }),
        ...here.map(([each, b]) =>
          svgEl("circle", { class: `dot ${each.cls}`, cx: at, cy: place.y(b), r: 5 }),
        ),
      ],
    };
  });
  return { height, spots: listSpots(spots, true) };
}

const pathOf = (points) =>
  points.map(([x, y], i) => `${i === 0 ? "M" : "L"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

// Math.min and Math.max take no list of any length.
const smallest = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
const largest = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);

function emptyPlot(svg, width) {
  svg.append(
    svgEl("text", { class: "axis", x: width / 2, y: 44, "text-anchor": "middle" }, "Nothing to draw."),
  );
  return { height: 80, label: "Nothing to draw.", spots: null };
}

// Points {x, y, cls, shape, hollow, title, lines, label} and lines {cls, dash, points} behind them.
function scatterChart({ svg, width }, { points, lines = [], x, y, height = 400 }) {
  if (points.length === 0) return emptyPlot(svg, width);
  const pad = 1.25;
  const xs = points.map((point) => point.x);
  const ys = points.map((point) => point.y);
  const xScale =
    x.kind === "log"
      ? scale("log", smallest(xs) / pad, largest(xs) * pad)
      : roundScale(smallest(xs), largest(xs));
  const place = axes(
    svg,
    width,
    height,
    { scale: xScale, label: x.label, format: tick(x.format) },
    { scale: roundScale(Math.min(1, smallest(ys)), largest(ys)), label: y.label, format: tick(y.format) },
  );
  for (const each of lines) {
    const path = each.points.map(([a, b]) => [place.x(a), place.y(b)]);
    svg.append(svgEl("path", { class: `line ${each.cls} ${each.dash ?? ""}`, d: pathOf(path) }));
  }
  const placed = points.map((point) => {
    const [a, b] = [place.x(point.x), place.y(point.y)];
    svg.append(marker(point, a, b, 4.5));
    return { ...point, x: a, y: b, mark: [svgEl("circle", { class: "ring", cx: a, cy: b, r: 9 })] };
  });
  nameSome(svg, placed, place);
  return { height, spots: listSpots(placed, false) };
}

// Writes the names of points that have a label, each where it covers no other and no point.
function nameSome(svg, points, { left, right, top }) {
  const taken = points.map(({ x, y }) => [x - 6, y - 6, x + 6, y + 6]);
  for (const { x, y, label, strong } of points.filter((point) => point.label)) {
    const size = textWidth(label) * 0.95;
    const places = [
      [x - size / 2, y - 10], [x + 7, y - 9], [x - 7 - size, y - 9], [x + 9, y + 4],
      [x - 9 - size, y + 4], [x - size / 2, y + 19], [x + 7, y + 17], [x - 7 - size, y + 17],
    ];
    const free = places.find(([a, b]) => {
      const box = [a, b - 10, a + size, b + 3];
      const isInside = box[0] >= left && box[2] <= right && box[1] >= top - 8;
      return (
        isInside &&
        taken.every((t) => box[2] < t[0] || box[0] > t[2] || box[3] < t[1] || box[1] > t[3])
      );
    });
    if (!free) continue;
    taken.push([free[0], free[1] - 10, free[0] + size, free[1] + 3]);
    svg.append(
      svgEl("text", { class: strong ? "name strong" : "name", x: free[0], y: free[1] }, label),
    );
  }
}
