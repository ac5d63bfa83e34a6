// The plan: how often one can save, with the model of docs/analyze.md, recomputed as inputs change.

const MONTH = 30 * 86400;

// Null and what is not positive is as if it took no time.
const time = (bytes, speed) => (num(speed) > 0 ? bytes / speed : 0);

// The figures of a method for these inputs; those that need an input which is missing are null.
function planned(method, inputs) {
  const { state_bytes: bytes, bandwidth, keep_last, keep_every, whole_every } = inputs;
  const cores = num(inputs.cores) ?? 1;
  const ratio = num(method.ratio) ?? 1;
  const whole = num(method.whole_ratio) ?? ratio;
  const chain = method.delta ? Math.max(1, num(whole_every) ?? 1) : 1;
  const between = num(inputs.step_time) > 0 && num(inputs.interval) > 0
    ? inputs.interval * inputs.step_time
    : null;
  const coded = (speed, by) =>
    Math.max(time(bytes, num(speed) === null ? null : cores * speed), time(bytes / by, bandwidth));

  const save = coded(method.compress_speed, ratio);
  const copy = time(bytes, inputs.copy_speed);
  const background = between === null ? null : copy + Math.max(0, save - between);
  const lost = (wait) => (between === null ? null : wait / (between + wait));
  const shortest = (of) => {
    const percents = Object.keys(table(method.shortest_blocking));
    return Object.fromEntries(
      (percents.length > 0 ? percents : ["1", "2", "5"]).map((percent) => [percent, of(Number(percent) / 100)]),
    );
  };
  const restoreDelta = coded(method.decompress_speed, ratio);
  return {
    save,
    wait_blocking: save,
    wait_background: background,
    lost_blocking: lost(save),
    lost_background: background === null ? null : lost(background),
    shortest_blocking: shortest((p) => (save * (1 - p)) / p),
    shortest_background: shortest((p) => Math.max((copy * (1 - p)) / p, save)),
    month_bytes: between === null
      ? null
      : monthBytes({ bytes, ratio, whole, chain, keep_last, keep_every, interval: inputs.interval },
        MONTH / between),
    restore: method.delta
      ? coded(method.whole_decompress_speed ?? method.decompress_speed, whole) + ((chain - 1) / 2) * restoreDelta
      : restoreDelta,
  };
}

// Bytes of the checkpoints that are kept of a month with this many saves.
function monthBytes({ bytes, ratio, whole, chain, keep_last, keep_every, interval }, saves) {
  const milestones = num(keep_every) > 0 ? Math.floor((saves * interval) / keep_every) : 0;
  const kept = Math.min(saves, (num(keep_last) ?? 0) + milestones);
  return (kept * ((bytes / ratio) * (chain - 1) + bytes / whole)) / chain;
}

// A slider on a logarithmic scale. It is the given value until it is moved.
function logSlider(label, low, high, start, isWhole, text, change) {
  const most = 400;
  const from = Math.min(low, start);
  const to = Math.max(high, start);
  const position = (value) => Math.round((Math.log(value / from) / Math.log(to / from)) * most);
  const home = position(start);
  const value = (at) => {
    if (at === home) return start;
    const exact = from * (to / from) ** (at / most);
    return isWhole ? Math.round(exact) : Number(exact.toPrecision(3));
  };
  const node = slider(label, most, home, (at) => text(value(at)), (at) => change(value(at)));
  return Object.assign(node, { reset: () => node.setPosition(home) });
}

function planSection() {
  const methods = list(data.plan?.methods).map(table);
  const given = table(data.plan?.inputs);
  if (methods.length === 0 || !(num(given.state_bytes) > 0)) return;
  const part = section("plan", "Plan", "How often to save",
    "What saving costs a training run. Move the sliders; everything below follows.");
  const inputs = { ...given };
  const state = { way: "blocking" };
  const parts = [];
  const refresh = () => parts.forEach((each) => each());
  const input = (key, label, low, high, isWhole, text) =>
    num(given[key]) > 0
      ? logSlider(label, low, high, given[key], isWhole, text, (value) => {
          inputs[key] = value;
          refresh();
        })
      : null;
  const sliders = [
    input("bandwidth", "Storage bandwidth", 10e6, 100e9, false, fmt.speed),
    input("cores", "Cores for compression", 1, 256, true, fmt.count),
    input("interval", "Steps between saves", 1, 10000, true, fmt.count),
    input("state_bytes", "Size of a checkpoint", 1e8, 1e13, false, fmt.bytes),
  ].filter((each) => each !== null);
  const reset = el("button", {
    type: "button",
    onclick: () => {
      Object.assign(inputs, given);
      for (const each of sliders) each.reset();
      refresh();
    },
  }, "As measured");
  const facts = el("p", { class: "facts" });
  const way = choice("Training", [["blocking", "Waits for each save"], ["background", "Waits for a copy only"]],
    "blocking", (value) => {
      state.way = value;
      refresh();
    });
  part.append(el("div", { class: "card" },
    el("h3", null, "Inputs"),
    el("div", { class: "controls sliders" }, sliders),
    el("div", { class: "controls" }, way, reset),
    facts));
  const rows = () => methods.map((method) => ({ method, ...planned(method, inputs) }));
  planTable(part, methods, rows, state, parts);
  planChart(part, rows, inputs, state, parts);
  parts.push(() => {
    const between = num(inputs.step_time) > 0 ? inputs.interval * inputs.step_time : null;
    facts.textContent = [
      between === null ? null : `A save every ${fmt.seconds(between)} of training (${fmt.seconds(inputs.step_time)} a step).`,
      num(inputs.copy_speed) > 0 ? `Memory is copied at ${fmt.speed(inputs.copy_speed)}.` : null,
      `Kept: the last ${fmt.count(inputs.keep_last)}`
        + (num(inputs.keep_every) > 0 ? ` and one every ${fmt.count(inputs.keep_every)} steps.` : "."),
      methods.some(({ delta }) => delta) && num(inputs.whole_every) > 0
        ? `Of deltas, one in ${fmt.count(inputs.whole_every)} is whole.`
        : null,
    ].filter((text) => text !== null).join(" ");
  });
  refresh();
}

function planTable(part, methods, rows, state, parts) {
  const percents = Object.keys(table(methods[0].shortest_blocking));
  const way = (row, what) => row[`${what}_${state.way}`];
  const grid = dataTable({
    label: "The plan",
    rows: rows(),
    columns: [
      { label: "Method", text: true, get: (row) => row.method.name },
      { label: "Ratio", get: (row) => row.method.ratio, format: fmt.ratio, best: "high" },
      { label: "Save takes", get: (row) => row.save, format: fmt.seconds, best: "low",
        help: "Until a checkpoint is compressed and in the storage" },
      { label: "Training waits", get: (row) => way(row, "wait"), format: fmt.seconds, best: "low" },
      { label: "Time lost", get: (row) => way(row, "lost"), format: fmt.share, best: "low",
        help: "Share of the time in which training waits" },
      ...(percents.length > 0 ? percents : ["1", "2", "5"]).map((percent) => ({
        label: `Save every, ${percent} % lost`,
        help: `The shortest time between saves with at most ${percent} % of the time lost`,
        get: (row) => way(row, "shortest")[percent],
        format: fmt.seconds,
        best: "low",
      })),
      { label: "Stored in 30 days", get: (row) => row.month_bytes, format: fmt.bytes, best: "low" },
      { label: "Restore takes", get: (row) => row.restore, format: fmt.seconds, best: "low",
        help: "Of deltas: the whole checkpoint and half of those that follow it" },
    ],
  });
  part.append(el("div", { class: "card", id: "plan-table" },
    el("h3", null, "Methods"),
    el("p", { class: "about" }, "The best of each column is marked."),
    grid.node));
  parts.push(() => grid.update(rows()));
}

// How much is lost by the time between saves.
function planChart(part, rows, inputs, state, parts) {
  const hidden = new Set();
  const times = Array.from({ length: 61 }, (_, i) => Number((10 ** (i / 12)).toPrecision(3)));
  const lostAt = (row, seconds) => {
    const copy = time(inputs.state_bytes, inputs.copy_speed);
    const wait = state.way === "blocking" ? row.save : copy + Math.max(0, row.save - seconds);
    return wait / (seconds + wait);
  };
  const series = () => rows().map((row, i) => ({
    name: fmt.text(row.method.name),
    cls: `c${[8, 1, 2, 3, 4, 6, 7, 5][i % 8]}`,
    dash: row.method.delta ? "dashed" : i < 8 ? "" : "dotted",
    row,
  }));
  const card = chart(part, {
    title: "Time lost by the time between saves",
    about: "Where a line falls below what you accept, you can save that often.",
    hidden,
    legend: series,
    draw: (frame) => lineChart(frame, {
      series: series().filter(({ name }) => !hidden.has(name)).map((each) => ({
        ...each,
        points: times.map((seconds) => [seconds, Math.max(1e-5, lostAt(each.row, seconds))]),
      })),
      x: { label: "time between saves", kind: "log", format: timeTick,
        ticks: [1, 10, 60, 600, 3600, 36000] },
      y: { label: "time lost", kind: "log", low: 1e-4, high: 1, format: fmt.share },
      name: (seconds) => `a save every ${fmt.seconds(seconds)}`,
    }),
    values: () => ({
      rows: times,
      columns: [
        { label: "Between saves", get: (seconds) => seconds, format: fmt.seconds },
        ...series().map((each) => ({ label: each.name, get: (seconds) => lostAt(each.row, seconds), format: fmt.share })),
      ],
    }),
  });
  parts.push(card.refresh);
}
