// The page of `lmc report`: what a store holds, and what it saved.

const runs = list(data.runs).map((run) => ({
  name: String(run?.run ?? ""),
  snapshots: list(run?.snapshots).map((snapshot) => ({ ...table(snapshot), run: String(run?.run ?? "") })),
}));
const snapshots = runs.flatMap((run) => run.snapshots);
const totals = table(data.totals);

const shortId = (id) => shown(String(id ?? DASH), 16);
const timeText = (time) => fmt.text(time).replace("T", " ").replace(/(\.\d+)?Z$/, "");

const quotient = (a, b) => (num(a) !== null && num(b) !== null && b > 0 ? a / b : null);
const runChoice = (change) =>
  choice("Run", runs.map(({ name }, i) => [String(i), shown(name, 40)]), "0", (i) => change(runs[Number(i)]));

function summarySection() {
  const part = section("summary", "Summary", "Summary");
  const damage = list(data.damage).map(table);
  if (damage.length > 0) {
    notice(part, `${plural(damage.length, "object")} damaged or missing`, [
      ...damage.slice(0, 20).map(({ object, what }) => `${fmt.text(object)}: ${fmt.text(what)}`),
      ...(damage.length > 20 ? [`… and ${fmt.count(damage.length - 20)} more`] : []),
    ]);
  }
  const stored = (num(totals.pack_bytes) ?? 0) + (num(totals.manifest_bytes) ?? 0);
  tiles(part, [
    ["Snapshots", fmt.count(totals.snapshots ?? snapshots.length), plural(runs.length, "run")],
    ["Their size", fmt.bytes(totals.logical_bytes), plural(num(totals.files) ?? 0, "file")],
    ["Stored", fmt.bytes(stored), "packs and manifests"],
    ["Ratio", fmt.ratio(quotient(totals.logical_bytes, stored)), "size by what is stored"],
    ...(num(totals.unneeded_bytes) > 0
      ? [["Not needed", fmt.bytes(totals.unneeded_bytes), "a prune removes it"]]
      : []),
  ]);
  const checked = data.checked
    ? `Checked: ${fmt.text(data.checked)}.${damage.length === 0 ? " No damage was found." : ""}`
    : "The store was not checked for damage.";
  part.append(el("p", { class: "facts" }, checked));
}

// Two bars: what became of the bytes of the snapshots, and what the packs hold.
function savingsSection() {
  const bases = num(totals.bases_only_bytes) ?? 0;
  const unneeded = num(totals.unneeded_bytes) ?? 0;
  const pack = num(totals.pack_bytes);
  const archives = num(totals.archive_bytes) ?? (pack === null ? null : Math.max(0, pack - unneeded - bases));
  const bar = (rows) =>
    rows.map(([name, value, cls, about]) => ({ name, value: num(value), cls, about, fill: true }));
  const saved = bar([
    ["Stored", archives, "c8", "archives of the files of snapshots"],
    ["Saved by reuse", totals.saved_by_reuse_bytes, "c1", "data that was already in the store"],
    ["Saved by deltas", totals.saved_by_delta_bytes, "c2", "by coding against a base"],
    ["Saved by coding", totals.saved_by_coding_bytes, "c3", "by compression without a base"],
  ]);
  const held = bar([
    ["Archives of snapshots", archives, "c8", "what restores of files need"],
    ["Bases only", bases, "c5", "archives of forgotten snapshots that others need as bases"],
    ["Not needed", unneeded, "c7", "what a prune removes"],
    ["Manifests", totals.manifest_bytes, "c4", "the descriptions of snapshots"],
  ]);
  if (!saved.some(({ value }) => value > 0)) return;
  const part = section("savings", "Savings", "Where the savings come from");
  const draw = (title, about, rows) =>
    chart(part, {
      title,
      about,
      legend: () => rows.filter(({ value }) => value > 0)
        .map((each) => ({ ...each, name: `${each.name}: ${fmt.bytes(each.value)}` })),
      draw: (frame) => stackedBar(frame, { parts: rows, format: fmt.bytes }),
      values: () => ({
        rows,
        columns: [
          { label: "Part", text: true, get: (row) => row.name },
          { label: "Size", get: (row) => row.value, format: fmt.bytes },
          { label: "What it is", text: true, get: (row) => row.about },
        ],
      }),
    });
  draw("What became of the bytes of all snapshots",
    "The whole bar is the size of all files in all snapshots.", saved);
  draw("What the store holds", "The whole bar is the size of the store.", held);
}

function growthSection() {
  const part = section("growth", "Snapshots", "Snapshots over time");
  if (snapshots.length === 0) {
    nothing(part, "The store has no snapshots.");
    return;
  }
  const state = { run: runs[0], kind: "linear" };
  const hidden = new Set();
  // By step if steps grow, by time if times do, and else one after the other.
  const axisOf = (some) => {
    const grows = (values) => values.every((v, i) => num(v) !== null && (i === 0 || v > values[i - 1]));
    const numbers = some.map(({ step }) => step);
    if (grows(numbers)) return [numbers, { label: "step", format: fmt.count }];
    const times = some.map(({ time }) => Date.parse(time));
    if (grows(times)) return [times, { label: "time", kind: "time", format: fmt.date }];
    return [some.map((_, i) => i + 1), { label: "snapshot", format: fmt.count }];
  };
  const lines = [
    { name: "size of the snapshot", key: "bytes", cls: "c1" },
    { name: "read by a restore", key: "whole_bytes", cls: "c3", dash: "dashed" },
    { name: "added to the store", key: "added_bytes", cls: "c2" },
  ];
  const present = () => lines.filter(({ key }) => state.run.snapshots.some((each) => num(each[key]) !== null));
  const card = chart(part, {
    title: "Size of snapshots and what they added",
    about: "A restore reads the archives of a snapshot and the bases that they need.",
    hidden,
    controls: [
      runChoice((run) => {
        state.run = run;
        card.refresh();
      }),
      choice("Axis", [["linear", "Linear"], ["log", "Logarithmic"]], "linear", (kind) => {
        state.kind = kind;
        card.refresh();
      }),
    ],
    legend: present,
    draw: (frame) => {
      const some = state.run.snapshots;
      const drawn = present().filter(({ name }) => !hidden.has(name));
      if (some.length === 1) {
        return barsAcross(frame, {
          label: "size",
          format: fmt.bytes,
          rows: drawn.map(({ name, key, cls }) => ({
            name,
            lines: [["size", fmt.bytes(some[0][key])]],
            values: [{ cls, value: num(some[0][key]) }],
          })),
        });
      }
      const [places, x] = axisOf(some);
      const most = largest(drawn.flatMap(({ key }) => some.map((each) => num(each[key]) ?? 0)));
      const [unit, size] = unitFor(most);
      const at = new Map(places.map((place, i) => [place, some[i]]));
      return lineChart(frame, {
        series: drawn.map((each) => ({
          ...each,
          points: some.map((snapshot, i) => [places[i], num(snapshot[each.key]) === null ? null : snapshot[each.key] / size]),
        })),
        x,
        y: { label: unit, kind: state.kind, zero: 0, format: (v) => fmt.bytes(v * size), tick: fmt.plain },
        name: (place) => `step ${fmt.count(at.get(place).step)}`,
        extra: (place) => [["saved", timeText(at.get(place).time)]],
      });
    },
    values: () => ({
      rows: state.run.snapshots,
      columns: [
        { label: "Snapshot", text: true, get: (row) => row.id },
        { label: "Step", get: (row) => row.step, format: fmt.count },
        ...present().map(({ name, key }) => ({ label: name, get: (row) => row[key], format: fmt.bytes })),
      ],
    }),
  });
}

function chainsSection() {
  if (snapshots.length === 0) return;
  const part = section("chains", "Base chains", "Base chains",
    "A snapshot that is coded against a base needs it to be restored, and that one its own base, and so on.");
  const state = { lanes: runs.slice(0, 8), number: "100" };
  const card = chart(part, {
    title: "Which snapshot is coded against which",
    about: "Snapshots in the order in which they were saved. An arc leads from each to its bases; a dashed end "
      + "leads to a base outside the picture.",
    controls: [
      choice("Run", [["all", runs.length > 8 ? "The first 8" : "All"], ...runs.map(({ name }, i) => [String(i), shown(name, 40)])]
        .slice(runs.length > 1 ? 0 : 1), "all", (which) => {
        state.lanes = which === "all" ? runs.slice(0, 8) : [runs[Number(which)]];
        card.refresh();
      }),
      snapshots.length > 30
        ? choice("Show", [["30", "Last 30"], ["100", "Last 100"], ["1000", "Last 1,000"]], "100", (number) => {
            state.number = number;
            card.refresh();
          })
        : null,
    ],
    legend: () => [
      { name: "whole", cls: "c1", shape: "square" },
      { name: "coded against a base", cls: "c2", shape: "circle" },
      ...(state.lanes.length > 1 ? [{ name: "base of another run", cls: "c4" }] : []),
      ...(snapshots.some(({ damage }) => list(damage).length > 0)
        ? [{ name: "damaged", cls: "c8", shape: "diamond", hollow: true }]
        : []),
    ],
    draw: (frame) => chainPicture(frame, state.lanes, Number(state.number)),
    values: () => ({
      rows: state.lanes.flatMap((lane) => lane.snapshots),
      columns: [
        { label: "Snapshot", text: true, get: (row) => row.id },
        { label: "Run", text: true, get: (row) => row.run },
        { label: "Step", get: (row) => row.step, format: fmt.count },
        { label: "Depth", get: (row) => row.depth, format: fmt.count },
        { label: "Coded against", text: true, get: (row) => list(row.bases).join(", ") },
      ],
    }),
  });
}

function retentionSection() {
  const rows = list(data.retention).map(table);
  if (rows.length === 0) return;
  const part = section("retention", "Retention", "What forgetting would free",
    "What each rule would forget, and what a prune would then remove. Nothing was forgotten.");
  part.append(dataTable({
    label: "Rules of retention",
    rows,
    columns: [
      { label: "Rule", text: true, get: (row) => row.rule },
      { label: "Snapshots removed", get: (row) => row.snapshots_removed, format: fmt.count },
      { label: "Freed", get: (row) => row.freed_bytes, format: fmt.bytes },
      {
        label: "Share of the packs",
        get: (row) => quotient(row.freed_bytes, totals.pack_bytes),
        format: fmt.share,
      },
    ],
  }).node);
}

function snapshotsSection() {
  if (snapshots.length === 0) return;
  const part = section("snapshots", "Table", "All snapshots");
  const hasDamage = snapshots.some(({ damage }) => list(damage).length > 0);
  part.append(dataTable({
    label: "Snapshots",
    rows: snapshots,
    search: (row) => `${row.run} ${row.id} ${row.step} ${list(row.tags).join(" ")}`,
    row: ({ damage }) => (list(damage).length > 0 ? { class: "damaged" } : null),
    columns: [
      { label: "Snapshot", text: true, short: true, get: (row) => row.id, format: shortId },
      { label: "Run", text: true, get: (row) => row.run },
      { label: "Step", get: (row) => row.step, format: fmt.count },
      { label: "Saved", text: true, short: true, get: (row) => row.time, format: timeText },
      { label: "Tags", text: true, get: (row) => list(row.tags).join(", ") },
      { label: "Files", get: (row) => row.files, format: fmt.count },
      { label: "Size", get: (row) => row.bytes, format: fmt.bytes },
      { label: "Added", get: (row) => row.added_bytes, format: fmt.bytes },
      { label: "Restore reads", get: (row) => row.whole_bytes, format: fmt.bytes,
        help: "Its archives and the bases that they need" },
      { label: "Depth", get: (row) => row.depth, format: fmt.count,
        help: "Bases in the longest base chain" },
      { label: "Saved by reuse", get: (row) => row.saved_reuse, format: fmt.bytes, help: "Data that was already in the store" },
      { label: "… by deltas", get: (row) => row.saved_delta, format: fmt.bytes, help: "Saved by coding against a base" },
      { label: "… by coding", get: (row) => row.saved_coding, format: fmt.bytes, help: "Saved by compression alone" },
      ...(hasDamage
        ? [{ label: "Damage", text: true, get: (row) => list(row.damage).slice(0, 5).join("; ") }]
        : []),
    ],
  }).node);
}

const lead = [
  data.store ? `store ${fmt.text(data.store)}` : null,
  plural(snapshots.length, "snapshot"),
  plural(runs.length, "run"),
];

const sections = [
  summarySection,
  savingsSection,
  growthSection,
  chainsSection,
  retentionSection,
  snapshotsSection,
];
