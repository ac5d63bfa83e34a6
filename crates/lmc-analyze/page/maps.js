// Heat maps: tensors over steps, and bits of a value over steps.

// Figures of a tensor: [key, text, is it against the step before, format].
const FIGURES = [
  ["difference_given_exponent", "Difference given exponent (bits)", true, fmt.bits],
  ["unchanged", "Unchanged values", true, fmt.share],
  ["exponent_changed", "Changed exponents", true, fmt.share],
  ["coded", "lmc, against the step before (bits)", true, fmt.bits],
  ["xor", "XOR (bits)", true, fmt.bits],
  ["coded", "lmc, alone (bits)", false, fmt.bits],
  ["bound", "Bound, alone (bits)", false, fmt.bits],
  ["exponent", "Entropy of the exponent (bits)", false, fmt.bits],
  ["mantissa", "Entropy of the mantissa (bits)", false, fmt.bits],
].map(([key, text, isChange, format]) => ({
  id: `${isChange ? "change" : "alone"}-${key}`,
  text,
  format,
  // Columns of the map: a name, and where a tensor has its figures for it.
  columns: isChange
    ? neighbours.map(({ pair, place }) => ({ name: steps.name(pair.checkpoint), place }))
    : checkpoints.map((_, place) => ({ name: steps.name(place), place })),
  of: (tensor, place) => num(list(isChange ? tensor.changes : tensor.alone)[place]?.[key]),
}));

const hasValue = (figure, tensor) =>
  figure.columns.some(({ place }) => figure.of(tensor, place) !== null);
const hasFigure = (figure) => tensors.some((tensor) => hasValue(figure, tensor));

function tensorMapSection() {
  const part = section("map", "Tensors", "Tensors over steps",
    "Each line is a tensor and each column a checkpoint, so that layers which behave differently stand out.");
  const figures = FIGURES.filter(hasFigure);
  if (figures.length === 0) {
    nothing(part, "There are no figures of single tensors.");
    return;
  }
  // Types differ in width, and so in most figures: the map begins with the one that has the most bytes.
  const bytes = new Map();
  for (const { dtype, alone } of tensors.filter((tensor) => hasValue(figures[0], tensor))) {
    const size = num(list(alone).find((each) => num(each?.bytes) !== null)?.bytes) ?? 0;
    bytes.set(String(dtype), (bytes.get(String(dtype)) ?? 0) + size);
  }
  for (const { dtype } of tensors) bytes.set(String(dtype), bytes.get(String(dtype)) ?? 0);
  const dtypes = [...bytes.keys()].sort((a, b) => bytes.get(b) - bytes.get(a));
  const state = { figure: figures[0], order: "kind", words: "", dtype: `=${dtypes[0]}` };
  const rows = () => {
    const { figure, order, words } = state;
    const typed = tensors.filter(({ dtype }) => !state.dtype || `=${dtype}` === state.dtype);
    let some = typed.map((tensor) => ({
      name: String(tensor.name ?? ""),
      kind: String(tensor.kind ?? ""),
      values: figure.columns.map(({ place }) => figure.of(tensor, place)),
    }));
    some = some.filter(
      (row) => row.name.toLowerCase().includes(words) && row.values.some((value) => value !== null),
    );
    if (order === "kind") {
      const by = collator.compare;
      some.sort((a, b) => by(a.kind, b.kind) || by(a.name, b.name));
    }
    return some;
  };
  const card = chart(part, {
    title: "Map of tensors",
    about: "Light is high and dark is low. Where there are more tensors than lines, a line is the mean of "
      + "neighbours.",
    controls: [
      choice("Figure", figures.map(({ id, text }) => [id, text]), figures[0].id, (id) => {
        state.figure = figures.find((figure) => figure.id === id);
        card.refresh();
      }),
      choice("Type", dtypes.length > 1 ? [...dtypes.map((dtype) => [`=${dtype}`, shown(dtype, 30)]), ["", "All"]] : [],
        state.dtype, (dtype) => {
          state.dtype = dtype;
          card.refresh();
        }),
      choice("Order", [["kind", "By kind"], ["file", "As in the files"]], "kind", (order) => {
        state.order = order;
        card.refresh();
      }),
      searchField("Only names with", (words) => {
        state.words = words;
        card.refresh();
      }),
    ],
    draw: (frame) => {
      const some = rows();
      const [low, high] = rangeOf(some);
      return heatMap(frame, {
        rows: some,
        columns: state.figure.columns.map(({ name }) => name),
        format: state.figure.format,
        xLabel: steps.axis.label,
        low,
        high,
        spotLines: (row) => [["kind", shown(row.kind, 80)]],
      });
    },
    values: () => ({
      rows: rows(),
      columns: [
        { label: "Tensor", text: true, get: (row) => row.name },
        ...state.figure.columns.slice(0, 200).map(({ name }, i) => ({
          label: name,
          get: (row) => row.values[i],
          format: state.figure.format,
        })),
      ],
    }),
  });
}

// How many bits of the exponent and the mantissa a type has, and its bias.
const FLOATS = {
  BF16: [8, 7, 127],
  F16: [5, 10, 15],
  F32: [8, 23, 127],
  F64: [11, 52, 1023],
  F8_E4M3: [4, 3, 7],
  F8_E5M2: [5, 2, 15],
  C64: [8, 23, 127],
};

function bitName(dtype, bit) {
  const [exponent, mantissa] = own(FLOATS, dtype) ?? [];
  if (exponent === undefined) return `bit ${bit}`;
  if (bit < mantissa) return `mantissa ${bit}`;
  return bit < mantissa + exponent ? `exponent ${bit - mantissa}` : "sign";
}

function bitsSection() {
  const flipped = (pair, dtype) => list(own(pair.dtypes, dtype)?.flipped).map(num);
  const all = neighbours.flatMap(({ pair }) => Object.keys(table(pair.dtypes)));
  const dtypes = [...new Set(all)].filter((dtype) =>
    neighbours.some(({ pair }) => flipped(pair, dtype).length > 0),
  );
  if (dtypes.length === 0) return;
  const part = section("bits", "Bits", "Bits that change",
    "In what share of the values each bit differs from the step before. A bit that differs in half of them is "
    + "as good as random; one that hardly differs costs almost nothing.");
  const state = { dtype: dtypes[0] };
  const rows = () => {
    const columns = neighbours.map(({ pair }) => flipped(pair, state.dtype));
    const count = Math.max(...columns.map((column) => column.length));
    return Array.from({ length: count }, (_, i) => count - 1 - i).map((bit) => ({
      bit,
      name: bitName(state.dtype, bit),
      values: columns.map((column) => column[bit] ?? null),
    }));
  };
  const names = neighbours.map(({ pair }) => steps.name(pair.checkpoint));
  const card = chart(part, {
    title: "Share of values in which a bit differs",
    about: "The highest bit is at the top. The changes of training sit in the low bits of the mantissa.",
    controls: [
      choice("Type", dtypes.map((dtype) => [dtype, shown(dtype, 30)]), dtypes[0], (dtype) => {
        state.dtype = dtype;
        card.refresh();
      }),
    ],
    draw: (frame) => {
      const some = rows();
      if (names.length === 1) {
        return barsAcross(frame, {
          label: "share of values",
          format: fmt.share,
          rows: some.map(({ name, values }) => ({
            name,
            lines: [["differs in", fmt.share(values[0])]],
            values: [{ cls: name.startsWith("mantissa") ? "c1" : "c2", value: values[0] }],
          })),
        });
      }
      return heatMap(frame, {
        rows: some,
        columns: names,
        format: fmt.share,
        xLabel: steps.axis.label,
        low: 0,
        high: Math.max(1e-9, rangeOf(some)[1]),
        tall: some.length > 32 ? 9 : 16,
      });
    },
    values: () => ({
      rows: rows(),
      cap: 64,
      columns: [
        { label: "Bit", get: (row) => row.bit, format: fmt.count },
        { label: "Part", text: true, get: (row) => row.name },
        ...names.slice(0, 200).map((name, i) => ({ label: name, get: (row) => row.values[i], format: fmt.share })),
      ],
    }),
  });
}
