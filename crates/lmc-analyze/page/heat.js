// Heat maps on a canvas: many rows are drawn as means of neighbours, one pixel or more for each.

// Colours of a scale from low to high that get lighter all the way (those of "viridis").
const HEAT = [
  [68, 1, 84], [72, 40, 120], [62, 74, 137], [49, 104, 142], [38, 130, 142], [31, 158, 137],
  [53, 183, 121], [110, 206, 88], [181, 222, 43], [253, 231, 37],
];

function heatColour(share) {
  const at = Math.max(0, Math.min(1, share)) * (HEAT.length - 1);
  const i = Math.min(HEAT.length - 2, Math.floor(at));
  return HEAT[i].map((low, k) => Math.round(low + (HEAT[i + 1][k] - low) * (at - i)));
}

// Rows {name, values}, columns as names. `group` names the rows that one line of cells stands for.
function heatMap({ svg, canvas, width }, options) {
  const { rows, columns, format, xLabel, low, high, spotLines, tall } = options;
  if (rows.length === 0 || columns.length === 0) return emptyPlot(svg, width);
  const cell = rows.length <= 40 ? tall ?? 16 : rows.length <= 90 ? 8 : rows.length <= 180 ? 4 : 2;
  const lines = Math.min(rows.length, 280);
  const inner = Math.max(lines * cell, 24);
  const names = lineNames(rows, lines, cell);
  const widest = Math.max(...names.map(([, name]) => textWidth(name)), 20);
  const left = Math.ceil(Math.min(width * 0.34, widest + 12));
  const right = width - 1;
  const top = 44;
  const first = (line) => Math.floor((line * rows.length) / lines);
  const mean = (line, column) => {
    let [sum, count] = [0, 0];
    for (let i = first(line); i < first(line + 1); i += 1) {
      const value = num(rows[i].values[column]);
      if (value !== null) [sum, count] = [sum + value, count + 1];
    }
    return count > 0 ? sum / count : null;
  };
  const span = high > low ? high - low : 1;
  paint(canvas, columns.length, lines, (column, line) => {
    const value = mean(line, column);
    return value === null ? null : heatColour((value - low) / span);
  });
  Object.assign(canvas.style, {
    left: `${left}px`,
    top: `${top}px`,
    width: `${right - left}px`,
    height: `${inner}px`,
  });
  heatKey(svg, left, right, low, high, format);
  const most = Math.max(4, Math.floor((left - 10) / 6.7));
  for (const [line, name] of names) {
    const y = top + ((line + 0.5) * inner) / lines + 4;
    svg.append(svgEl("text", { x: left - 6, y, "text-anchor": "end" }, brief(name, most)));
  }
  const wide = (right - left) / columns.length;
  let after = -Infinity;
  columns.forEach((name, i) => {
    const text = shown(name, 24);
    const half = textWidth(text) / 2;
    const at = Math.min(left + (i + 0.5) * wide, width - half);
    if (at - half < after + 10) return;
    after = at + half;
    svg.append(svgEl("text", { x: at, y: top + inner + 17, "text-anchor": "middle" }, text));
  });
  const height = top + inner + 40;
  svg.append(svgEl("text", { class: "axis", x: right, y: height - 4, "text-anchor": "end" }, xLabel));
  return {
    height,
    spots: gridSpots({ left, top, wide, high: inner / lines, columns, lines }, (column, line) => {
      const members = rows.slice(first(line), first(line + 1));
      return {
        title:
          members.length === 1
            ? shown(members[0].name, 300)
            : `${members.length} rows: ${shown(members[0].name)} to ${shown(members.at(-1).name)}`,
        lines: [
          [xLabel, shown(columns[column], 80)],
          [members.length === 1 ? "value" : "mean", format(mean(line, column))],
          ...(members.length === 1 ? (spotLines?.(members[0], column) ?? []) : []),
        ],
      };
    }),
  };
}

// Which lines have their name written: all that there is room for.
function lineNames(rows, lines, cell) {
  const every = Math.ceil(14 / cell);
  const names = [];
  for (let line = 0; line < lines; line += every) {
    names.push([line, rows[Math.floor((line * rows.length) / lines)].name]);
  }
  return names;
}

function paint(canvas, width, height, colour) {
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) {
      const rgb = colour(x, y);
      if (rgb) image.data.set([...rgb, 255], 4 * (y * width + x));
    }
  }
  context.putImageData(image, 0, 0);
  canvas.hidden = false;
}

// What the colours mean: a strip with the ends and the middle written.
function heatKey(svg, left, right, low, high, format) {
  const size = Math.min(220, right - left - 110);
  const from = left + textWidth(format(low)) + 6;
  const parts = 44;
  for (let i = 0; i < parts; i += 1) {
    const [r, g, b] = heatColour(i / (parts - 1));
    const box = { x: from + (i * size) / parts, y: 4, width: size / parts + 0.6, height: 12 };
    svg.append(svgEl("rect", { class: "key", fill: `rgb(${r} ${g} ${b})`, ...box }));
  }
  svg.append(
    svgEl("text", { x: from - 6, y: 14, "text-anchor": "end" }, format(low)),
    svgEl("text", { x: from + size + 6, y: 14 }, format(high)),
  );
}

// Spots of a grid, as numbers: line times columns plus column.
function gridSpots({ left, top, wide, high, columns, lines }, describe) {
  const clamp = (value, most) => Math.max(0, Math.min(most - 1, value));
  return {
    first: 0,
    find: (x, y) => {
      const column = Math.floor((x - left) / wide);
      const line = Math.floor((y - top) / high);
      const isInside = column >= 0 && column < columns.length && line >= 0 && line < lines;
      return isInside ? line * columns.length + column : null;
    },
    move: (at, dx, dy) => {
      const line = clamp(Math.floor(at / columns.length) + dy, lines);
      return line * columns.length + clamp((at % columns.length) + dx, columns.length);
    },
    spot: (at) => {
      const column = at % columns.length;
      const line = Math.floor(at / columns.length);
      const box = { x: left + column * wide, y: top + line * high, width: wide, height: high };
      return {
        x: box.x + wide / 2,
        y: box.y + high / 2,
        mark: [svgEl("rect", { class: "frame cell", ...box })],
        ...describe(column, line),
      };
    },
  };
}

// The smallest and largest value of rows, so that colours use the whole scale.
function rangeOf(rows) {
  let [low, high] = [Infinity, -Infinity];
  for (const { values } of rows) {
    for (const value of values) {
      if (num(value) === null) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  return low <= high ? [low, high] : [0, 1];
}
