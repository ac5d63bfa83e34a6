// Engines: ratio against speed.

const GIB = 1024 ** 3;

function engineName({ engine, level, grouped, base, xor }) {
  const parts = [fmt.text(engine)];
  if (level !== null && level !== undefined && level !== "") parts.push(fmt.text(level));
  const how = [grouped ? "bytes grouped" : null, xor ? "XOR" : null, base && !xor ? "against a base" : null];
  const words = how.filter((word) => word !== null);
  return parts.join(" ") + (words.length > 0 ? ` (${words.join(", ")})` : "");
}

const isOurs = ({ engine }) => String(engine) === "lmc" || String(engine).startsWith("lmc ");

// Points that no other beats in both ratio and speed, from the slowest.
function frontier(points) {
  let best = -Infinity;
  const ahead = [];
  for (const point of [...points].sort((a, b) => b.x - a.x || b.y - a.y)) {
    if (point.y > best) {
      best = point.y;
      ahead.push(point);
    }
  }
  return ahead.reverse();
}

// A line through these points that goes down at one speed and on at the next one's ratio.
const staircase = (points) =>
  points.flatMap(({ x, y }, i) => (i === 0 ? [[x, y]] : [[points[i - 1].x, y], [x, y]]));

function enginesSection() {
  const rows = list(data.engines?.rows).map(table);
  if (rows.length === 0) return;
  const part = section("engines", "Engines", "Engines",
    `Compressors measured on the same ${fmt.bytes(data.engines.sample_bytes)} of a checkpoint.`);
  const hasBase = rows.some((row) => row.base || row.xor);
  const state = { speed: "compress", which: hasBase ? "base" : "alone" };
  const chosen = () =>
    rows.filter((row) => state.which === "all" || (row.base || row.xor ? "base" : "alone") === state.which);
  const field = () => `${state.speed}_speed`;
  const points = () => {
    const some = chosen()
      .filter((row) => num(row.ratio) !== null && num(row[field()]) > 0)
      .map((row) => ({
        row,
        x: row[field()] / GIB,
        y: row.ratio,
        cls: isOurs(row) ? "c2" : "c7",
        shape: row.base || row.xor ? "diamond" : "circle",
        hollow: !row.grouped && !isOurs(row),
        strong: isOurs(row),
        title: engineName(row),
        lines: [
          ["ratio", fmt.ratio(row.ratio)],
          ["bits per value", fmt.bits(row.bits_per_value)],
          ["compress", fmt.speed(row.compress_speed)],
          ["decompress", fmt.speed(row.decompress_speed)],
        ],
      }));
    const ahead = new Set(frontier(some));
    // Ours first, then those at the front: names are written while there is room.
    return some
      .map((point) => ({
        ...point,
        isAhead: ahead.has(point),
        label: point.strong || ahead.has(point) || some.length <= 60 ? shortName(point.row) : null,
      }))
      .sort((a, b) => b.strong - a.strong || b.isAhead - a.isAhead);
  };
  const card = chart(part, {
    title: "Ratio against speed",
    about: "Up and to the right is better. The line joins those that no other beats in both.",
    controls: [
      choice("Speed", [["compress", "Compress"], ["decompress", "Decompress"]], "compress", (speed) => {
        state.speed = speed;
        card.refresh();
      }),
      hasBase
        ? choice("Show", [["base", "Against a base"], ["alone", "Alone"], ["all", "All"]], "base", (which) => {
            state.which = which;
            card.refresh();
          })
        : null,
    ],
    legend: () => {
      const some = points();
      const keys = ["circle", "diamond"].flatMap((shape) => {
        const how = shape === "diamond" ? ", against a base" : "";
        return [
          { name: `lmc${how}`, cls: "c2", shape, strong: true, hollow: false },
          { name: `others${how}, bytes grouped`, cls: "c7", shape, strong: false, hollow: false },
          { name: `others${how}, bytes as they are`, cls: "c7", shape, strong: false, hollow: true },
        ];
      });
      const isKey = (key) => (point) =>
        ["shape", "strong", "hollow"].every((field) => point[field] === key[field]);
      return [
        ...keys.filter((key) => some.some(isKey(key))),
        { name: "not beaten", cls: "c8", dash: "dashed" },
      ];
    },
    draw: (frame) => {
      const some = points();
      return scatterChart(frame, {
        points: some,
        lines: [{ cls: "c8", dash: "dashed", points: staircase(frontier(some)) }],
        x: { label: `${state.speed} speed, GiB/s`, kind: "log", format: fmt.plain },
        y: { label: "ratio", format: fmt.plain },
      });
    },
    values: () => ({
      rows: chosen(),
      search: engineName,
      sort: [1, "down"],
      columns: [
        { label: "Engine", text: true, get: engineName },
        { label: "Ratio", get: (row) => row.ratio, format: fmt.ratio, best: "high" },
        { label: "Bits per value", get: (row) => row.bits_per_value, format: fmt.bits, best: "low" },
        { label: "Compress", get: (row) => row.compress_speed, format: fmt.speed, best: "high" },
        { label: "Decompress", get: (row) => row.decompress_speed, format: fmt.speed, best: "high" },
        { label: "Compress, CPU time", get: (row) => row.compress_cpu, format: fmt.speed,
          help: "Bytes per second of CPU time" },
        { label: "Decompress, CPU time", get: (row) => row.decompress_cpu, format: fmt.speed,
          help: "Bytes per second of CPU time" },
      ],
    }),
  });
}

const shortName = ({ engine, level }) =>
  shown(level === null || level === undefined || level === "" ? String(engine) : `${engine} ${level}`, 24);
