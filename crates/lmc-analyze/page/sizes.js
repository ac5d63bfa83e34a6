// What checkpoints take: in sum, over steps, by distance, and by kind of layer.

// Bytes of tensors, and what they take alone and against the step before.
function sums() {
  const sum = { bytes: 0, tensors: 0, alone: 0, compared: 0, against: 0 };
  let [hasAlone, hasPair] = [false, false];
  checkpoints.forEach((checkpoint, i) => {
    const total = table(checkpoint.total);
    sum.bytes += num(checkpoint.bytes) ?? 0;
    const [size, coded, values] = [num(total.bytes), num(total.coded), num(total.values)];
    if (size === null || coded === null || values === null) return;
    hasAlone = true;
    sum.tensors += size;
    sum.alone += (coded * values) / 8;
    const against = num(pairOf.get(i)?.pair.total?.coded);
    if (against === null) return;
    hasPair = true;
    const shared = num(pairOf.get(i).pair.total.values) ?? values;
    sum.compared += (sharedBitsBefore(i, "total") * shared) / 8;
    sum.against += (against * shared) / 8;
  });
  return {
    bytes: sum.bytes,
    alone: hasAlone ? quotient(sum.tensors, sum.alone) : null,
    against: hasPair ? quotient(sum.compared, sum.against) : null,
  };
}

function summarySection() {
  const part = section("summary", "Summary", "Summary");
  const skipped = list(data.skipped).map(table);
  if (skipped.length > 0) {
    notice(
      part,
      `${plural(skipped.length, "file")} could not be read and ${skipped.length === 1 ? "is" : "are"} left out`,
      [
        ...skipped.slice(0, 20).map(({ path, why }) => `${fmt.text(path)}: ${fmt.text(why)}`),
        ...(skipped.length > 20 ? [`… and ${fmt.count(skipped.length - 20)} more`] : []),
      ],
    );
  }
  if (checkpoints.length === 0) {
    nothing(part, "No checkpoint was read.");
    return;
  }
  const { bytes, alone, against } = sums();
  const span = steps.areSteps && checkpoints.length > 1
    ? `steps ${steps.name(0)} to ${steps.name(checkpoints.length - 1)}`
    : null;
  tiles(part, [
    ["Checkpoints", fmt.count(checkpoints.length), span],
    ["Size", fmt.bytes(bytes), checkpoints.length > 1 ? "of all together" : null],
    ["Tensors", fmt.count(tensors.length), null],
    ["Ratio alone", fmt.ratio(alone), "each checkpoint for itself"],
    ...(neighbours.length > 0
      ? [["Ratio against a base", fmt.ratio(against), "each against the step before"]]
      : []),
  ]);
  part.append(
    dataTable({
      label: "Checkpoints",
      cap: 12,
      rows: checkpoints.map((checkpoint, i) => ({ i, checkpoint, change: pairOf.get(i)?.pair.total })),
      columns: [
        { label: "Checkpoint", text: true, get: (row) => row.checkpoint.name },
        { label: "Step", get: (row) => row.checkpoint.step, format: fmt.count },
        { label: "Files", get: (row) => row.checkpoint.files, format: fmt.count },
        { label: "Size", get: (row) => row.checkpoint.bytes, format: fmt.bytes },
        {
          label: "Not tensors",
          get: (row) => row.checkpoint.other_bytes,
          format: fmt.bytes,
          help: "Bytes that were counted but not measured",
        },
        { label: "Ratio alone", format: fmt.ratio,
          get: (row) => quotient(bitsBefore(row.checkpoint.total), row.checkpoint.total?.coded) },
        { label: "Against a base", format: fmt.ratio,
          get: (row) => quotient(sharedBitsBefore(row.i, "total"), row.change?.coded) },
        { label: "Unchanged", get: (row) => row.change?.unchanged ?? null, format: fmt.share },
      ],
    }).node,
  );
  changesOfShape(part);
}

// Tensors that appear, vanish or change their shape.
function changesOfShape(part) {
  const lines = [];
  for (const { pair } of neighbours) {
    const names = (which) => list(pair[which]).map((name) => fmt.text(name));
    const some = (found) =>
      found.slice(0, 5).join(", ") + (found.length > 5 ? ` and ${found.length - 5} more` : "");
    const parts = [];
    if (names("only_new").length > 0) parts.push(`new: ${some(names("only_new"))}`);
    if (names("only_base").length > 0) parts.push(`gone: ${some(names("only_base"))}`);
    const reshaped = list(pair.reshaped).map(
      ({ name, old, new: next }) => `${fmt.text(name)}, ${fmt.text(old)} to ${fmt.text(next)}`,
    );
    if (reshaped.length > 0) parts.push(`changed: ${some(reshaped)}`);
    if (parts.length > 0) lines.push(`At ${steps.name(pair.checkpoint)}: ${parts.join("; ")}.`);
  }
  if (lines.length > 8) lines.splice(8, lines.length, `… and at ${lines.length - 8} more checkpoints`);
  if (lines.length > 0) notice(part, "Not every tensor is in every checkpoint", lines);
}

function stepsSection() {
  const part = section("steps", "Over steps", "Size over steps",
    "How many bits a value takes at each checkpoint. Solid lines are what lmc really writes. Broken "
    + "lines are what an ideal coder would need that knows how frequent each symbol is.");
  if (checkpoints.length === 0) {
    nothing(part, "There are no checkpoints.");
    return;
  }
  const state = { group: firstGroup, unit: "bits" };
  const hidden = new Set();
  const value = (i, method) => {
    const alone = pick(checkpoints[i], state.group);
    const bits = num(method.of(alone, pick(pairOf.get(i)?.pair, state.group)));
    if (state.unit === "bits") return bits;
    return quotient(method.isAlone ? bitsBefore(alone) : sharedBitsBefore(i, state.group), bits);
  };
  const format = (v) => (state.unit === "bits" ? fmt.bits(v) : fmt.ratio(v));
  const present = () =>
    METHODS.filter((method) => checkpoints.some((_, i) => value(i, method) !== null));
  const card = chart(part, {
    title: "Size by method",
    about: "Lower is better for bits per value, and higher for the ratio. Press a name to hide its line.",
    hidden,
    controls: [
      choice("Show", [["bits", "Bits per value"], ["ratio", "Ratio"]], "bits", (unit) => {
        state.unit = unit;
        card.refresh();
      }),
      choice("Of", groups(), firstGroup, (group) => {
        state.group = group;
        card.refresh();
      }),
    ],
    legend: present,
    draw: (frame) => {
      const drawn = present().filter((method) => !hidden.has(method.name));
      const unit = state.unit === "bits" ? "bits per value" : "ratio";
      if (checkpoints.length === 1) return oneStep(frame, drawn, (method) => value(0, method), format, unit);
      const series = drawn.map((method) => ({
        ...method,
        points: checkpoints.map((_, i) => [steps.x(i), value(i, method)]),
      }));
      return lineChart(frame, {
        series,
        x: steps.axis,
        y: { label: unit, format, tick: fmt.plain, zero: state.unit === "bits" ? 0 : 1 },
        name: steps.title,
        extra: (x) => shareCompared(steps.at(x), state.group),
      });
    },
    values: () => ({
      rows: checkpoints.map((_, i) => i),
      columns: [
        { label: "Checkpoint", text: true, get: (i) => checkpoints[i].name },
        ...present().map((method) => ({ label: method.name, get: (i) => value(i, method), format })),
      ],
    }),
  });
}

// A line for the tooltip if not all values of a checkpoint are in the one before it.
function shareCompared(i, group) {
  const share = quotient(pick(pairOf.get(i)?.pair, group).values, pick(checkpoints[i], group).values);
  return share !== null && share < 0.9995 ? [["in the step before", fmt.share(share)]] : [];
}

// Bars in place of lines that would be points.
const oneStep = (frame, methods, value, format, label) =>
  barsAcross(frame, {
    label,
    format,
    rows: methods.map((method) => ({
      name: method.name,
      lines: [[label, format(value(method))]],
      values: [{ cls: method.cls, dash: method.dash, value: value(method) }],
    })),
  });

// Means of pairs with the same number of steps between them.
function byDistance(group) {
  const sums = new Map();
  for (const pair of pairs) {
    const change = pick(pair, group);
    const apart = num(pair.steps) ?? num(pair.distance);
    const values = num(change.values);
    if (apart === null || apart <= 0 || !values) continue;
    if (!sums.has(apart)) sums.set(apart, { apart, pairs: 0, sampled: false, sum: new Map() });
    const entry = sums.get(apart);
    entry.pairs += 1;
    entry.sampled ||= pair.sampled === true;
    for (const { key } of DISTANCE) {
      if (num(change[key]) === null) continue;
      const [total, weight] = entry.sum.get(key) ?? [0, 0];
      entry.sum.set(key, [total + change[key] * values, weight + values]);
    }
  }
  const mean = (entry, key) => {
    const found = entry.sum.get(key);
    return found ? found[0] / found[1] : null;
  };
  return [...sums.values()]
    .sort((a, b) => a.apart - b.apart)
    .map((entry) => ({ ...entry, mean: (key) => mean(entry, key) }));
}

const DISTANCE = [
  { key: "coded_alone", name: "lmc, alone", cls: "c1" },
  { key: "coded", name: "lmc, against the base", cls: "c2" },
  ...METHODS.filter(({ key }) => ["xor", "difference", "difference_given_exponent"].includes(key)),
];

function distanceSection() {
  if (pairs.length === 0) return;
  const part = section("distance", "By distance", "How much a base helps, by its distance",
    "The further back the base, the more has changed since, and the less it helps.");
  const areSteps = pairs.every((pair) => num(pair.steps) !== null);
  const state = { group: firstGroup };
  const hidden = new Set();
  const title = (apart) => (areSteps ? `${plural(apart, "step")} apart` : `${plural(apart, "checkpoint")} apart`);
  const present = (rows) => DISTANCE.filter(({ key }) => rows.some((row) => row.mean(key) !== null));
  const card = chart(part, {
    title: "Bits per value by distance",
    about: "Means over all pairs of checkpoints with the same distance. Where the lines of lmc meet, "
      + "a base no longer helps.",
    hidden,
    controls: [
      choice("Of", groups(), firstGroup, (group) => {
        state.group = group;
        card.refresh();
      }),
    ],
    legend: () => present(byDistance(state.group)),
    draw: (frame) => {
      const rows = byDistance(state.group);
      const drawn = present(rows).filter(({ name }) => !hidden.has(name));
      if (rows.length === 1) {
        return oneStep(frame, drawn, ({ key }) => rows[0].mean(key), fmt.bits,
          `bits per value, ${title(rows[0].apart)}`);
      }
      return lineChart(frame, {
        series: drawn.map((method) => ({
          ...method,
          points: rows.map((row) => [row.apart, row.mean(method.key)]),
        })),
        x: {
          label: areSteps ? "steps between checkpoint and base" : "checkpoints between",
          kind: "log",
          format: fmt.count,
        },
        y: { label: "bits per value", format: fmt.bits, tick: fmt.plain, zero: 0 },
        name: title,
        extra: (apart) => {
          const row = rows.find((each) => each.apart === apart);
          return [["pairs", fmt.count(row.pairs)], ...(row.sampled ? [["measured", "on a sample"]] : [])];
        },
      });
    },
    values: () => {
      const rows = byDistance(state.group);
      return {
        rows,
        columns: [
          { label: areSteps ? "Steps apart" : "Apart", get: (row) => row.apart, format: fmt.count },
          { label: "Pairs", get: (row) => row.pairs, format: fmt.count },
          ...present(rows).map(({ key, name }) => ({ label: name, get: (row) => row.mean(key), format: fmt.bits })),
        ],
      };
    },
  });
}

function kindsSection() {
  const last = checkpoints.length - 1;
  if (!checkpoints.some((checkpoint) => Object.keys(table(checkpoint.kinds)).length > 0)) return;
  const part = section("kinds", "Kinds", "Kinds of layers",
    "Layers that differ only in their number are one kind.");
  const state = { at: last };
  const rows = () => {
    const change = pairOf.get(state.at)?.pair;
    return Object.entries(table(checkpoints[state.at].kinds))
      .map(([name, alone]) => ({ name, alone: table(alone), change: table(own(change?.kinds, name)) }))
      .sort((a, b) => (b.alone.bytes ?? 0) - (a.alone.bytes ?? 0));
  };
  const bars = [
    { name: METHODS[0].name, cls: "c1", of: (row) => num(row.alone.coded) },
    { name: METHODS[1].name, cls: "c2", of: (row) => num(row.change.coded) },
  ];
  const present = (all) => bars.filter(({ of }) => all.some((row) => of(row) !== null));
  const most = 24;
  const card = chart(part, {
    title: "Bits per value by kind of layer",
    about: `The ${most} largest kinds, the largest first. The table has all of them.`,
    controls: [
      overSteps("Checkpoint", checkpoints.length, last, steps.name, (at) => {
        state.at = at;
        card.refresh();
      }),
    ],
    legend: () => present(rows()).map((bar) => ({ ...bar, fill: true })),
    draw: (frame) => {
      const all = rows();
      const drawn = present(all);
      return barsAcross(frame, {
        label: "bits per value",
        format: fmt.bits,
        rows: all.slice(0, most).map((row) => ({
          name: row.name,
          values: drawn.map(({ cls, of }) => ({ cls, value: of(row) })),
          lines: [
            ["size", fmt.bytes(row.alone.bytes)],
            ...drawn.map((bar) => [bar.name, fmt.bits(bar.of(row)), { ...bar, fill: true }]),
            ...(num(row.change.unchanged) !== null ? [["unchanged", fmt.share(row.change.unchanged)]] : []),
          ],
        })),
      });
    },
    values: () => ({
      rows: rows(),
      search: (row) => row.name,
      columns: [
        { label: "Kind", text: true, get: (row) => row.name },
        { label: "Size", get: (row) => row.alone.bytes, format: fmt.bytes },
        { label: "Values", get: (row) => row.alone.values, format: fmt.count },
        { label: "lmc, alone", get: (row) => row.alone.coded, format: fmt.bits },
        { label: "Bound", get: (row) => row.alone.bound, format: fmt.bits },
        { label: "Exponent", get: (row) => row.alone.exponent, format: fmt.bits },
        { label: "Mantissa", get: (row) => row.alone.mantissa, format: fmt.bits },
        { label: "lmc, against the step before", get: (row) => row.change.coded, format: fmt.bits },
        { label: "Unchanged", get: (row) => row.change.unchanged, format: fmt.share },
      ],
    }),
  });
}
