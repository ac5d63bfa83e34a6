// Base chains: a line for each run, its snapshots in the order in which they were saved, and an
// arc from each to those that it is coded against.

// Lanes are {name, snapshots}; of all their snapshots, the last `number` are drawn.
function chainPicture({ svg, width }, lanes, number) {
  const order = (a, b) => String(a.snapshot.time).localeCompare(String(b.snapshot.time)) || a.at - b.at;
  const some = lanes
    .flatMap(({ snapshots }, lane) => snapshots.map((snapshot, at) => ({ snapshot, lane, at })))
    .sort(order)
    .slice(-number);
  if (some.length === 0) return emptyPlot(svg, width);
  const tall = lanes.length === 1 ? 200 : 116;
  const height = tall * lanes.length + 20;
  const [left, right] = [16, width - 16];
  const gap = some.length > 1 ? (right - left) / (some.length - 1) : 0;
  const places = some.map(({ lane }, i) => [
    some.length > 1 ? left + i * gap : width / 2,
    (lane + 1) * tall - 36,
  ]);
  lanes.forEach(({ name }, lane) => {
    const y = (lane + 1) * tall - 36;
    svg.append(svgEl("path", { class: "base", d: `M${left} ${y}H${right}` }));
    const label = { class: "axis", x: 0, y: lane * tall + 12 };
    if (lanes.length > 1) svg.append(svgEl("text", label, shown(name, 60)));
  });
  const index = new Map(some.map(({ snapshot }, i) => [snapshot.id, i]));
  const arcs = some.map(({ snapshot }, i) =>
    [...new Set(list(snapshot.bases))].map((id) => chainArc(places, index.get(id), i, tall - 56)),
  );
  svg.append(...arcs.flat());
  const r = Math.max(2, Math.min(6, gap === 0 ? 6 : gap / 3));
  some.forEach(({ snapshot }, i) => svg.append(marker(chainMark(snapshot), ...places[i], r)));
  chainTicks(svg, some, places, width);
  svg.append(svgEl("text", { class: "axis", x: right, y: height - 6, "text-anchor": "end" }, "step"));
  const spots = some.map(({ snapshot }, i) => ({
    x: places[i][0],
    y: places[i][1],
    title: `${shown(snapshot.run, 40)}, step ${fmt.count(snapshot.step)}`,
    lines: [
      ["snapshot", shown(String(snapshot.id ?? ""), 24)],
      ["bases in its chain", fmt.count(snapshot.depth)],
      ["added", fmt.bytes(snapshot.added_bytes)],
      ["coded against", baseNames(snapshot, some, index)],
    ],
    mark: [
      svgEl("circle", { class: "ring", cx: places[i][0], cy: places[i][1], r: r + 5 }),
      ...arcs[i].map((arc) => svgEl("path", { class: "arc strong c8", d: arc.getAttribute("d") })),
    ],
  }));
  return { height, spots: listSpots(spots, true) };
}

const isWhole = ({ bases }) => list(bases).length === 0;

const chainMark = (snapshot) =>
  list(snapshot.damage).length > 0
    ? { cls: "c8", shape: "diamond", hollow: true }
    : isWhole(snapshot)
      ? { cls: "c1", shape: "square" }
      : { cls: "c2", shape: "circle" };

// An arc above a line, a curve between lines, or the end of one if the base is not drawn.
function chainArc(places, base, own, most) {
  const [x, y] = places[own];
  if (base === undefined) {
    return svgEl("path", { class: "arc outside c7", d: `M${x} ${y}q-5 -17 -14 -20` });
  }
  const [from, line] = places[base];
  if (line === y) {
    const tall = Math.min(most, Math.max(12, Math.abs(x - from) / 2)) * 1.33;
    return svgEl("path", { class: "arc c2", d: `M${from} ${y}C${from} ${y - tall} ${x} ${y - tall} ${x} ${y}` });
  }
  const middle = (line + y) / 2;
  return svgEl("path", { class: "arc c4", d: `M${from} ${line}C${from} ${middle} ${x} ${middle} ${x} ${y}` });
}

const baseNames = (snapshot, some, index) =>
  isWhole(snapshot)
    ? "nothing"
    : list(snapshot.bases)
        .slice(0, 4)
        .map((id) => {
          const base = some[index.get(id)]?.snapshot;
          if (!base) return shown(String(id), 16);
          return base.run === snapshot.run
            ? `step ${fmt.count(base.step)}`
            : `${shown(base.run, 24)}, step ${fmt.count(base.step)}`;
        })
        .join("; ");

function chainTicks(svg, some, places, width) {
  const after = new Map();
  some.forEach(({ snapshot, lane }, i) => {
    const text = fmt.count(snapshot.step);
    const half = textWidth(text) / 2;
    const middle = Math.max(half, Math.min(places[i][0], width - half));
    if (middle - half < (after.get(lane) ?? -Infinity) + 10) return;
    after.set(lane, middle + half);
    svg.append(svgEl("text", { x: middle, y: places[i][1] + 22, "text-anchor": "middle" }, text));
  });
}
