// How often each exponent occurs, for an element type, at a checkpoint.

function exponentsSection() {
  const of = (checkpoint, dtype) => list(own(checkpoint.dtypes, dtype)?.exponents);
  const all = checkpoints.flatMap((checkpoint) => Object.keys(table(checkpoint.dtypes)));
  const dtypes = [...new Set(all)].filter((dtype) =>
    checkpoints.some((checkpoint) => of(checkpoint, dtype).length > 0),
  );
  if (dtypes.length === 0) return;
  const part = section("exponents", "Exponents", "Exponents",
    "Weights use few of the exponents that their type has. This is what makes checkpoints compressible.");
  const last = checkpoints.length - 1;
  const state = { dtype: dtypes[0], at: last, kind: "linear" };

  // Share of each exponent at each checkpoint, and the counts.
  const shares = checkpoints.map(() => new Map());
  function histogramOf(i) {
    const kept = shares[i].get(state.dtype);
    if (kept) return kept;
    const pairsOf = of(checkpoints[i], state.dtype).filter(
      (pair) => Number.isInteger(pair?.[0]) && num(pair[1]) !== null,
    );
    const sum = pairsOf.reduce((total, [, count]) => total + count, 0);
    const found = {
      counts: new Map(pairsOf),
      shares: new Map(pairsOf.map(([exponent, count]) => [exponent, sum > 0 ? count / sum : 0])),
    };
    shares[i].set(state.dtype, found);
    return found;
  }

  // Exponents that the picture covers: the same for all checkpoints, and without the exponent 0,
  // far away, which zeros have.
  function range() {
    const least = state.kind === "log" ? 0 : 5e-4;
    let [low, high, top] = [Infinity, -Infinity, 0];
    checkpoints.forEach((_, i) => {
      for (const [exponent, share] of histogramOf(i).shares) {
        if (exponent === 0 || share <= least) continue;
        [low, high, top] = [Math.min(low, exponent), Math.max(high, exponent), Math.max(top, share)];
      }
    });
    return low <= high ? [low, high, top] : [0, 0, 1];
  }

  const power = (exponent) => {
    const bias = own(FLOATS, state.dtype)?.[2];
    if (bias === undefined) return DASH;
    return exponent === 0 ? "zeros and subnormals" : `2^${exponent - bias}`;
  };
  const series = () => [
    { name: `at ${steps.name(state.at)}`, cls: "c1", fill: true, at: state.at },
    ...(state.at > 0 ? [{ name: `at ${steps.name(0)}`, cls: "c2", dash: "dashed", at: 0 }] : []),
  ];
  const card = chart(part, {
    title: "Exponents",
    about: "How often each exponent occurs: the bits of the field, not the power of two. The broken line is the "
      + "first checkpoint. Exponent 0, of zeros, is in the table alone.",
    controls: [
      choice("Type", dtypes.map((dtype) => [dtype, shown(dtype, 30)]), dtypes[0], (dtype) => {
        state.dtype = dtype;
        card.refresh();
      }),
      choice("Axis", [["linear", "Linear"], ["log", "Logarithmic"]], "linear", (kind) => {
        state.kind = kind;
        card.refresh();
      }),
      overSteps("Checkpoint", checkpoints.length, last, steps.name, (at) => {
        state.at = at;
        card.refresh();
      }),
    ],
    legend: series,
    draw: (frame) => {
      const [low, high, top] = range();
      const drawn = series().map((each) => ({ ...each, values: histogramOf(each.at).shares }));
      return histogram(frame, {
        series: drawn,
        low,
        high,
        high_y: top,
        kind: state.kind,
        x: { label: "exponent", format: (value) => String(value) },
        y: { label: "share of values", format: fmt.share, floor: 1e-8 },
        spot: (exponent) => ({
          title: `exponent ${exponent}`,
          lines: [
            ["from", power(exponent)],
            ...drawn.map((each) => [each.name, fmt.share(each.values.get(exponent) ?? 0), each]),
          ],
        }),
      });
    },
    values: () => {
      const { counts, shares: parts } = histogramOf(state.at);
      return {
        rows: [...counts.keys()].sort((a, b) => a - b),
        columns: [
          { label: "Exponent", get: (exponent) => exponent, format: fmt.count },
          { label: "From", text: true, get: power },
          { label: "Values", get: (exponent) => counts.get(exponent), format: fmt.count },
          { label: "Share", get: (exponent) => parts.get(exponent), format: fmt.share },
        ],
      };
    },
  });
}
