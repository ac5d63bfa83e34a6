// Ways through the data of `lmc analyze --json`.

const quotient = (a, b) => (num(a) !== null && num(b) !== null && b > 0 ? a / b : null);

const checkpoints = list(data.checkpoints).map(table);
const pairs = list(data.pairs).map(table);
const tensors = list(data.tensors).map(table);

// Pairs of a checkpoint and the one before it, with their places in `pairs`, in order.
const neighbours = pairs
  .map((pair, place) => ({ pair, place }))
  .filter(({ pair }) => pair.distance === 1 && checkpoints[pair.checkpoint])
  .sort((a, b) => a.pair.checkpoint - b.pair.checkpoint);
const pairOf = new Map(neighbours.map(({ pair, place }) => [pair.checkpoint, { pair, place }]));

// Where checkpoints are on an axis: at their steps if these grow, or else one after the other.
const steps = (() => {
  const numbers = checkpoints.map(({ step }) => num(step));
  const areSteps = numbers.every((step, i) => step !== null && (i === 0 || step > numbers[i - 1]));
  const name = (i) => {
    const checkpoint = checkpoints[i] ?? {};
    if (num(checkpoint.step) !== null) return fmt.count(checkpoint.step);
    return shown(String(checkpoint.name ?? i), 24);
  };
  const place = areSteps ? numbers : checkpoints.map((_, i) => i);
  const at = new Map(place.map((x, i) => [x, i]));
  return {
    areSteps,
    name,
    x: (i) => place[i],
    at: (x) => at.get(x),
    title: (x) => {
      const i = at.get(x);
      const label = shown(String(checkpoints[i]?.name ?? ""), 80);
      return areSteps ? `step ${fmt.count(x)}${label ? ` (${label})` : ""}` : label || name(i);
    },
    axis: {
      label: areSteps ? "step" : "checkpoint",
      format: areSteps ? fmt.count : (x) => name(x),
      ticks: areSteps ? null : place,
    },
  };
})();

// Everything, an element type or a kind of layer, as [value, text].
function groups() {
  const names = (field) => {
    const all = checkpoints.flatMap((checkpoint) => Object.keys(table(checkpoint[field])));
    return [...new Set(all)].sort(collator.compare);
  };
  const some = (field, word) => {
    const found = names(field);
    return found.length > 1 || field === "kinds"
      ? found.slice(0, 500).map((name) => [`${field}:${name}`, `${word} ${shown(name, 70)}`])
      : [];
  };
  return [["total", "everything"], ...some("dtypes", "type"), ...some("kinds", "kind")];
}

function pick(entry, group) {
  if (group === "total") return table(entry?.total);
  const field = group.slice(0, group.indexOf(":"));
  return table(own(entry?.[field], group.slice(field.length + 1)));
}

// Bits that a value has before it is compressed.
function bitsBefore(alone) {
  const [bytes, values] = [num(alone?.bytes), num(alone?.values)];
  return bytes !== null && values ? (8 * bytes) / values : null;
}

// Bits before of the values that a checkpoint shares with the one before it, which may be a part.
function sharedBitsBefore(i, group) {
  const { pair } = pairOf.get(i) ?? {};
  if (!pair || group !== "total") return bitsBefore(pick(checkpoints[i], group));
  let [bits, values] = [0, 0];
  for (const [dtype, change] of Object.entries(table(pair.dtypes))) {
    const width = bitsBefore(own(checkpoints[i].dtypes, dtype));
    if (width === null || !num(change?.values)) continue;
    bits += width * change.values;
    values += change.values;
  }
  return quotient(bits, values) ?? bitsBefore(checkpoints[i].total);
}

// Where not all checkpoints have the same tensors, means over everything say little: then the type
// that all of them share and that has the most bytes is shown first.
const firstGroup = (() => {
  const isSame = pairs.every((pair) => ["only_new", "only_base"].every((key) => list(pair[key]).length === 0));
  if (isSame) return "total";
  const last = table(checkpoints.at(-1)?.dtypes);
  const inAll = Object.keys(last)
    .filter((dtype) => [...checkpoints, ...pairs].every((each) => own(each.dtypes, dtype)))
    .sort((a, b) => (last[b]?.bytes ?? 0) - (last[a]?.bytes ?? 0));
  return inAll.length > 0 && groups().some(([group]) => group === `dtypes:${inAll[0]}`)
    ? `dtypes:${inAll[0]}`
    : "total";
})();

// Ways to write a checkpoint; `of` takes the figures alone and those against the step before.
const METHODS = [
  { key: "alone", isAlone: true, name: "lmc, alone", cls: "c1", of: (alone) => alone.coded },
  { key: "coded", name: "lmc, against the step before", cls: "c2", of: (_, change) => change.coded },
  { key: "bound", isAlone: true, name: "bound, alone", cls: "c5", dash: "dashed", of: (alone) => alone.bound },
  { key: "xor", name: "XOR", cls: "c4", dash: "dotted", of: (_, change) => change.xor },
  { key: "difference", name: "difference", cls: "c6", dash: "dashed", of: (_, change) => change.difference },
  {
    key: "difference_given_exponent",
    name: "difference given exponent",
    cls: "c3",
    dash: "dashed",
    of: (_, change) => change.difference_given_exponent,
  },
];

// A slider over checkpoints or the like, or nothing if there is one.
const overSteps = (label, count, at, name, change) =>
  count > 1 ? slider(label, count - 1, at, name, change) : null;
