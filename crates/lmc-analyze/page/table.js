// Tables that can be sorted and searched. Only the first rows are in the page, so that thousands
// of rows stay quick.

// A column is {label, get, format, text, best, help}: `get` takes a row, `format` what it gave.
// `short` columns are not broken. `text` columns are sorted as text; `best` is "low" or "high" and marks the best value.
function dataTable({ label, columns, rows, cap = 50, search = null, sort = null, row = null }) {
  const state = { rows, words: "", sort: sort?.[0] ?? null, down: sort?.[1] === "down", cap };
  const head = el("tr");
  const body = el("tbody");
  const more = el("div", { class: "more" });
  const count = el("span", { class: "count", "aria-live": "polite" });
  const buttons = columns.map((column, i) => {
    const button = el(
      "button",
      {
        type: "button",
        title: column.help,
        onclick: () => {
          state.down = state.sort === i ? !state.down : !column.text;
          state.sort = i;
          show();
        },
      },
      column.label,
    );
    head.append(el("th", { scope: "col", class: [column.text ? "text" : "number", column.short ? "short" : ""].join(" ").trim() }, button));
    return button;
  });

  function chosen() {
    let some = state.rows;
    if (state.words && search) {
      const words = state.words.split(/\s+/);
      some = some.filter((row) => {
        const text = search(row).toLowerCase();
        return words.every((word) => text.includes(word));
      });
    }
    if (state.sort === null) return some;
    const { get, text } = columns[state.sort];
    const sign = state.down ? -1 : 1;
    const order = text
      ? (a, b) => sign * collator.compare(String(a[0] ?? ""), String(b[0] ?? ""))
      : (a, b) => sign * (a[0] - b[0]);
    const keyed = some.map((row) => [text ? get(row) : num(get(row)), row]);
    // What has no value comes last in both orders.
    const full = keyed.filter(([key]) => key !== null && key !== undefined).sort(order);
    return [...full, ...keyed.filter(([key]) => key === null || key === undefined)].map(
      ([, row]) => row,
    );
  }

  function cell(column, row, best) {
    const value = column.get(row);
    const words = (column.format ?? (column.text ? fmt.text : fmt.plain))(value, row);
    const isBest = best !== null && value === best;
    return el(
      column.text && column === columns[0] ? "th" : "td",
      {
        scope: column.text && column === columns[0] ? "row" : null,
        class: [column.text ? "text" : "number", column.short ? "short" : "", isBest ? "best" : ""]
          .filter(Boolean)
          .join(" "),
        "data-value": column.text ? null : num(value),
        title: column.text && typeof value === "string" ? shown(value, 2000) : null,
      },
      words,
    );
  }

  function show() {
    const some = chosen();
    buttons.forEach((button, i) => {
      const order = state.sort === i ? (state.down ? "descending" : "ascending") : null;
      if (order) button.parentElement.setAttribute("aria-sort", order);
      else button.parentElement.removeAttribute("aria-sort");
    });
    const bests = columns.map(({ best, get }) => {
      const values = best ? some.map((row) => num(get(row))).filter((v) => v !== null) : [];
      if (values.length < 2) return null;
      return values.reduce((a, b) => (best === "low" ? Math.min(a, b) : Math.max(a, b)));
    });
    body.replaceChildren(
      ...some
        .slice(0, state.cap)
        .map((each) =>
          el("tr", row?.(each) ?? null, columns.map((column, i) => cell(column, each, bests[i]))),
        ),
    );
    const left = some.length - state.cap;
    const step = Math.min(left, 200);
    more.replaceChildren(
      ...(left > 0
        ? [
            el("button", { type: "button", onclick: () => grow(200) }, `Show ${step} more`),
            el("span", null, `${fmt.count(left)} of ${fmt.count(some.length)} are not shown`),
          ]
        : []),
    );
    count.textContent =
      some.length === state.rows.length
        ? plural(some.length, "row")
        : `${fmt.count(some.length)} of ${plural(state.rows.length, "row")}`;
  }

  function grow(by) {
    state.cap += by;
    show();
  }

  const scroller = el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    el("table", null, el("caption", { class: "unseen" }, label), el("thead", null, head), body),
  );
  const bar = search
    ? el(
        "div",
        { class: "controls" },
        searchField("Search", (words) => {
          state.words = words;
          state.cap = cap;
          show();
        }),
        count,
      )
    : null;
  show();
  return {
    node: el("div", { class: "table" }, bar, scroller, more),
    update: (next) => {
      state.rows = next;
      show();
    },
  };
}

const collator = new Intl.Collator("en", { numeric: true });
