// Bars: across, with their names on the left; upright, for histograms; and stacked.

// Rows {name, title, lines, values: [{cls, value, text}]}; a row has a bar for each value.
function barsAcross({ svg, width }, { rows, format, label, most }) {
  if (rows.length === 0) return emptyPlot(svg, width);
  const thick = 13;
  const room = Math.min(width * 0.42, Math.max(...rows.map((row) => textWidth(row.name))) + 12);
  const letters = Math.floor((room - 12) / 6.7);
  const all = rows.flatMap((row) => row.values.map(({ value }) => value ?? 0));
  const high = most ?? Math.max(largest(all), 1e-12);
  const texts = rows.flatMap((row) => row.values.map(({ value }) => format(value)));
  const right = width - Math.max(...texts.map(textWidth)) - 10;
  const length = scale("linear", 0, high).place(0, right - room);
  let y = 22;
  svg.append(svgEl("text", { class: "axis", x: room, y: 12 }, label));
  const spots = rows.map((row) => {
    const from = y;
    const name = brief(row.name, letters);
    const size = row.values.length * (thick + 3);
    svg.append(svgEl("text", { x: room - 8, y: y + size / 2 + 3, "text-anchor": "end" }, name));
    for (const { cls, value, dash } of row.values) {
      if (num(value) === null) {
        svg.append(svgEl("text", { class: "faint", x: room + 2, y: y + 11 }, DASH));
      } else {
        const long = Math.max(1, length(Math.min(value, high)));
        svg.append(
          svgEl("rect", { class: `area ${cls} ${dash ? "light" : ""}`, x: room, y, width: long, height: thick, rx: 2 }),
          svgEl("text", { class: "value", x: room + long + 6, y: y + 11 }, format(value)),
        );
      }
      y += thick + 3;
    }
    y += row.values.length > 1 ? 9 : 4;
    const frame = { class: "frame", x: 0.5, y: from - 3.5, width: width - 1, height: size + 4, rx: 4 };
    return {
      x: room,
      y: from + size / 2,
      from,
      title: row.title ?? shown(row.name, 300),
      lines: row.lines,
      mark: [svgEl("rect", frame)],
    };
  });
  const inner = listSpots(spots, false);
  return {
    height: y + 6,
    spots: { ...inner, find: (_, at) => nearestRow(spots, at) },
  };
}

function nearestRow(spots, at) {
  let best = null;
  spots.forEach((spot, i) => {
    if (best === null || Math.abs(spot.y - at) < Math.abs(spots[best].y - at)) best = i;
  });
  return best;
}

// A histogram: series of maps from x to y, drawn as steps; the first is filled.
function histogram({ svg, width }, { series, low, high, high_y, kind, x, y, spot, height = 320 }) {
  const floor = kind === "log" ? y.floor : 0;
  const yScale = kind === "log" ? scale("log", floor, 1) : roundScale(0, high_y);
  const place = axes(
    svg,
    width,
    height,
    { scale: scale("linear", low - 0.5, high + 0.5), label: x.label, format: x.format,
      ticks: linearTicks(low, high, Math.max(2, width / 90)).filter(Number.isInteger) },
    { scale: yScale, label: y.label, format: tick(y.format) },
  );
  const wide = (place.right - place.left) / (high - low + 1);
  series.forEach(({ cls, values }, i) => {
    let outline = "";
    for (let at = low; at <= high; at += 1) {
      const value = values.get(at) ?? 0;
      const up = value > floor ? place.y(value) : place.bottom;
      const [a, b] = [place.x(at - 0.5), place.x(at + 0.5)];
      if (i > 0) outline += `${outline ? "L" : "M"}${a.toFixed(1)} ${up.toFixed(1)}H${b.toFixed(1)}`;
      else if (value > floor) {
        const gap = wide > 4 ? 0.5 : 0;
        const box = { x: a + gap, y: up, width: b - a - 2 * gap, height: place.bottom - up };
        svg.append(svgEl("rect", { class: `area ${cls}`, ...box }));
      }
    }
    if (outline) svg.append(svgEl("path", { class: `line ${cls} dashed`, d: outline }));
  });
  const spots = [];
  for (let at = low; at <= high; at += 1) {
    const up = Math.min(place.bottom, place.y(Math.max(series[0].values.get(at) ?? 0, floor)));
    const frame = { class: "frame", x: place.x(at - 0.5), y: place.top, width: wide, height: place.bottom - place.top };
    spots.push({ x: place.x(at), y: up, mark: [svgEl("rect", frame)], ...spot(at) });
  }
  return { height, spots: listSpots(spots, true) };
}

// One bar that is divided: parts {name, value, cls}.
function stackedBar({ svg, width }, { parts, format }) {
  const some = parts.filter(({ value }) => num(value) !== null && value > 0);
  const sum = some.reduce((total, { value }) => total + value, 0);
  if (sum === 0) return emptyPlot(svg, width);
  let x = 0;
  const spots = some.map((part) => {
    const size = (part.value / sum) * width;
    const box = { x: x + 0.5, y: 4, width: Math.max(0.5, size - 1), height: 46 };
    svg.append(svgEl("rect", { class: `area ${part.cls}`, ...box }));
    const text = fmt.share(part.value / sum);
    const spot = {
      x: x + size / 2,
      y: 28,
      title: part.name,
      lines: [["size", format(part.value)], ["share", text]],
      mark: [svgEl("rect", { class: "frame strong", ...box })],
    };
    if (size > textWidth(text) + 8) {
      svg.append(svgEl("text", { class: `in ${part.cls}`, x: x + size / 2, y: 31, "text-anchor": "middle" }, text));
    }
    x += size;
    return spot;
  });
  const ends = [];
  some.reduce((from, { value }) => (ends.push(from + (value / sum) * width), ends.at(-1)), 0);
  const inner = listSpots(spots, true);
  return {
    height: 54,
    spots: { ...inner, find: (at) => Math.max(0, ends.findIndex((end) => at <= end)) },
  };
}
