// The page of `lmc analyze`.

function tableSection() {
  const part = section("tensors", "Table", "All tensors");
  if (tensors.length === 0) {
    nothing(part, "There are no tensors.");
    return;
  }
  const state = { at: Math.max(0, checkpoints.length - 1) };
  const rows = () => {
    const place = pairOf.get(state.at)?.place;
    return tensors.map((tensor) => ({
      tensor,
      alone: table(list(tensor.alone)[state.at]),
      change: table(place === undefined ? null : list(tensor.changes)[place]),
    }));
  };
  const figure = (of, key, label, format, help) => ({ label, get: (row) => num(row[of][key]), format, help });
  const hasPairs = neighbours.length > 0;
  const grid = dataTable({
    label: "Tensors",
    rows: rows(),
    search: ({ tensor }) => `${tensor.name} ${tensor.kind} ${tensor.dtype}`,
    columns: [
      { label: "Tensor", text: true, get: ({ tensor }) => tensor.name },
      { label: "Type", text: true, short: true, get: ({ tensor }) => tensor.dtype },
      { label: "Shape", text: true, short: true, get: ({ tensor }) => list(tensor.shape).join(" × ") },
      figure("alone", "bytes", "Size", fmt.bytes),
      figure("alone", "coded", "lmc, alone", fmt.bits, "Bits per value"),
      figure("alone", "bound", "Bound", fmt.bits, "Bits per value"),
      figure("alone", "exponent", "Exponent", fmt.bits, "Bits per value"),
      ...(hasPairs
        ? [
            figure("change", "coded", "Against a base", fmt.bits, "lmc, against the step before; bits per value"),
            figure("change", "xor", "XOR", fmt.bits, "Bits per value"),
            figure("change", "difference_given_exponent", "Difference", fmt.bits, "Given the exponent; bits per value"),
            figure("change", "unchanged", "Unchanged", fmt.share),
          ]
        : []),
    ],
  });
  const control = overSteps("Checkpoint", checkpoints.length, state.at, steps.name, (at) => {
    state.at = at;
    grid.update(rows());
  });
  part.append(el("div", { class: "card" },
    el("p", { class: "about" }, "Press a heading to sort. Figures are in bits per value."),
    control ? el("div", { class: "controls" }, control) : null,
    grid.node));
}

const lead = [
  plural(checkpoints.length, "checkpoint"),
  data.level ? `level ${fmt.text(data.level)}` : null,
  data.all === true ? "everything read and coded" : "coded on a sample",
];

const sections = [
  summarySection,
  stepsSection,
  distanceSection,
  kindsSection,
  tensorMapSection,
  bitsSection,
  exponentsSection,
  enginesSection,
  planSection,
  tableSection,
];
