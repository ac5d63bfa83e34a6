// Base chains: the snapshots of a run in a row, with an arc from each to those it is coded against.

// Snapshots as in the data; `number` is how many of the last are drawn.
function chainPicture({ svg, width }, snapshots, number) {
  const some = snapshots.slice(-number);
  if (some.length === 0) return emptyPlot(svg, width);
  const height = 210;
  const ground = height - 46;
  const [left, right] = [14, width - 14];
  const gap = some.length > 1 ? (right - left) / (some.length - 1) : 0;
  const x = (i) => (some.length > 1 ? left + i * gap : width / 2);
  const at = new Map(some.map(({ id }, i) => [id, i]));
  svg.append(svgEl("path", { class: "base", d: `M${left} ${ground}H${right}` }));
  const arcs = new Map();
  some.forEach(({ bases }, i) => {
    for (const id of new Set(list(bases))) {
      const from = at.get(id);
      const arc = from === undefined
        // The base is not in the picture: an arc that begins outside of it, or a stub.
        ? svgEl("path", { class: "arc c7", "stroke-dasharray": "3 3", d: `M${x(i)} ${ground}q-8 -26 -20 -30` })
        : svgEl("path", { class: "arc c2", d: arcOf(x(from), x(i), ground) });
      svg.append(arc);
      arcs.set(i, [...(arcs.get(i) ?? []), arc]);
    }
  });
  const r = Math.max(2, Math.min(6, gap === 0 ? 6 : gap / 3));
  some.forEach((snapshot, i) => svg.append(marker(chainMark(snapshot), x(i), ground, r)));
  chainTicks(svg, some, x, ground, width);
  svg.append(svgEl("text", { class: "axis", x: right, y: height - 6, "text-anchor": "end" }, "step"));
  const spots = some.map((snapshot, i) => ({
    x: x(i),
    y: ground,
    title: `step ${fmt.count(snapshot.step)}`,
    lines: [
      ["snapshot", shown(String(snapshot.id ?? ""), 24)],
      ["depth", fmt.count(snapshot.depth)],
      ["added", fmt.bytes(snapshot.added_bytes)],
      ["against", baseNames(snapshot, some, at)],
    ],
    mark: [
      svgEl("circle", { class: "ring", cx: x(i), cy: ground, r: r + 5 }),
      ...(arcs.get(i) ?? []).map((arc) =>
        svgEl("path", { class: "arc c8", d: arc.getAttribute("d"), "stroke-width": 3 }),
      ),
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

function arcOf(a, b, ground) {
  const tall = Math.min(ground - 12, Math.max(14, Math.abs(b - a) / 2));
  return `M${a} ${ground}C${a} ${ground - tall * 1.3} ${b} ${ground - tall * 1.3} ${b} ${ground}`;
}

const baseNames = (snapshot, some, at) =>
  isWhole(snapshot)
    ? "nothing: it is whole"
    : list(snapshot.bases)
        .slice(0, 4)
        .map((id) => (at.has(id) ? `step ${fmt.count(some[at.get(id)].step)}` : shown(String(id), 16)))
        .join(", ");

function chainTicks(svg, some, x, ground, width) {
  let after = -Infinity;
  some.forEach(({ step }, i) => {
    const text = fmt.count(step);
    const half = textWidth(text) / 2;
    const middle = Math.max(half, Math.min(x(i), width - half));
    if (middle - half < after + 10) return;
    after = middle + half;
    svg.append(svgEl("text", { x: middle, y: ground + 24, "text-anchor": "middle" }, text));
  });
}
