// A chart: a card with a title, an explanation, controls, a legend, a picture, and its values as a
// table. The picture has spots, which a pointer or the arrow keys choose and a tooltip explains.

// One tooltip for all charts; `aria-live` reads it out when the arrow keys move it.
const tooltip = (() => {
  const node = el("div", { class: "tooltip", role: "status", "aria-live": "polite", hidden: true });
  document.body.append(node);
  const hide = () => {
    node.hidden = true;
  };
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
  });
  addEventListener("scroll", hide, { passive: true, capture: true });

  // Shows a spot's text beside a point of the window.
  function show(spot, x, y) {
    node.replaceChildren(
      el("strong", null, spot.title),
      el(
        "dl",
        null,
        spot.lines.map(([name, value, mark]) =>
          el("div", null, el("dt", null, mark ? swatch(mark) : null, name), el("dd", null, value)),
        ),
      ),
    );
    node.hidden = false;
    const { width, height } = node.getBoundingClientRect();
    const right = document.documentElement.clientWidth - width - 8;
    const left = x + 16 + width > right + width ? x - 16 - width : x + 16;
    node.style.left = `${Math.max(8, Math.min(left, right))}px`;
    const below = y + 16 + height > innerHeight - 8;
    node.style.top = `${Math.max(8, below ? y - 12 - height : y + 16)}px`;
  }
  return { show, hide };
})();

// A sample of how a series is drawn: {cls, dash, fill, shape}.
function swatch(mark) {
  const svg = svgEl("svg", { class: "swatch", viewBox: "0 0 22 12", "aria-hidden": "true" });
  if (mark.shape) svg.append(marker(mark, 11, 6, 4.5));
  else if (mark.fill) svg.append(svgEl("rect", { class: `area ${mark.cls}`, x: 4, y: 0, width: 14, height: 12, rx: 2 }));
  else {
    svg.append(svgEl("path", { class: `line ${mark.cls} ${mark.dash ?? ""}`, d: "M0 6H22" }));
  }
  return svg;
}

// A point: a circle, a diamond or a square, full or hollow.
function marker({ cls, shape = "circle", hollow }, x, y, r) {
  const path = {
    circle: () => `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`,
    diamond: () => `M${x} ${y - 1.3 * r}L${x + 1.3 * r} ${y}L${x} ${y + 1.3 * r}L${x - 1.3 * r} ${y}z`,
    square: () => `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}z`,
  }[shape]();
  return svgEl("path", { class: `mark ${cls} ${hollow ? "hollow" : ""}`, d: path });
}

// The picture in a card. `draw({svg, canvas, width})` returns {height, label, spots, legend}, where
// spots are {first, find(x, y), move(key, dx, dy), spot(key) -> {x, y, title, lines, mark}}.
function picture(draw) {
  const canvas = el("canvas", { hidden: true, "aria-hidden": "true" });
  const svg = svgEl("svg", { "aria-hidden": "true" });
  const box = el("div", { class: "plot", tabindex: "0", role: "img" }, canvas, svg);
  const over = svgEl("g", { class: "over" });
  let spots = null;
  let at = null;
  let width = 0;

  function redraw() {
    if (width === 0) return;
    over.replaceChildren();
    svg.replaceChildren();
    canvas.hidden = true;
    at = null;
    const drawn = draw({ svg, canvas, width });
    svg.setAttribute("viewBox", `0 0 ${width} ${drawn.height}`);
    box.style.height = `${drawn.height}px`;
    box.setAttribute("aria-label", `${drawn.label} The arrow keys go through the values.`);
    spots = drawn.spots;
    svg.append(over);
  }

  function choose(key, pointer) {
    at = key;
    over.replaceChildren();
    if (key === null || key === undefined) {
      tooltip.hide();
      return;
    }
    const spot = spots.spot(key);
    over.append(...spot.mark);
    const frame = box.getBoundingClientRect();
    if (pointer) tooltip.show(spot, pointer.clientX, pointer.clientY);
    else tooltip.show(spot, frame.left + spot.x, frame.top + spot.y);
  }

  function follow(event) {
    if (!spots) return;
    const frame = box.getBoundingClientRect();
    choose(spots.find(event.clientX - frame.left, event.clientY - frame.top), event);
  }
  box.addEventListener("pointermove", follow);
  box.addEventListener("pointerdown", follow);
  box.addEventListener("pointerleave", (event) => {
    if (event.pointerType !== "touch") choose(null);
  });
  box.addEventListener("blur", () => choose(null));
  box.addEventListener("keydown", (event) => {
    const step = {
      ArrowLeft: [-1, 0],
      ArrowRight: [1, 0],
      ArrowUp: [0, -1],
      ArrowDown: [0, 1],
    }[event.key];
    if (!step || !spots) return;
    event.preventDefault();
    choose(at === null || at === undefined ? spots.first : spots.move(at, ...step));
  });
  new ResizeObserver(() => {
    const next = Math.floor(box.clientWidth);
    if (next === width) return;
    width = next;
    redraw();
  }).observe(box);
  document.documentElement.addEventListener("themechange", redraw);
  return { box, redraw };
}

// Spots of a list of points; `along` finds them by x alone.
function listSpots(points, along) {
  const distance = (point, x, y) => Math.hypot(point.x - x, along ? 0 : point.y - y);
  return {
    first: points.length > 0 ? 0 : null,
    find: (x, y) => {
      let best = null;
      points.forEach((point, i) => {
        if (best === null || distance(point, x, y) < distance(points[best], x, y)) best = i;
      });
      return best !== null && (along || distance(points[best], x, y) < 60) ? best : null;
    },
    move: (at, dx, dy) => Math.max(0, Math.min(points.length - 1, at + dx + dy)),
    spot: (at) => points[at],
  };
}

// A card with a chart. `draw` as above; `legend()` gives [{name, cls, ...}]; `values()` gives
// {columns, rows} for the table. With `hidden`, entries of the legend switch their series.
function chart(parent, { title, about, controls = [], draw, legend, values, hidden }) {
  const heading = el("h3", null, title);
  const keys = el("ul", { class: "legend" });
  const holder = el("div", { class: "values", hidden: true, id: newId("values") });
  const image = picture((frame) => {
    const drawn = draw(frame);
    return { ...drawn, label: `${title}. ${drawn.label ?? about}` };
  });
  const toggle = el(
    "button",
    {
      type: "button",
      class: "as-table",
      "aria-expanded": "false",
      "aria-controls": holder.id,
      onclick: () => {
        holder.hidden = !holder.hidden;
        toggle.setAttribute("aria-expanded", String(!holder.hidden));
        toggle.textContent = holder.hidden ? "Show as table" : "Hide table";
        tabulate();
      },
    },
    "Show as table",
  );

  function tabulate() {
    if (holder.hidden) holder.replaceChildren();
    else holder.replaceChildren(dataTable({ label: title, ...values() }).node);
  }

  function entry(key) {
    const content = [swatch(key), el("span", null, key.name)];
    if (!hidden) return el("li", null, content);
    return el(
      "li",
      null,
      el(
        "button",
        {
          type: "button",
          "aria-pressed": String(!hidden.has(key.name)),
          title: hidden.has(key.name) ? "Show" : "Hide",
          onclick: () => {
            if (!hidden.delete(key.name)) hidden.add(key.name);
            refresh();
          },
        },
        content,
      ),
    );
  }

  function refresh() {
    const entries = legend?.() ?? [];
    const focused = [...keys.querySelectorAll("button")].indexOf(document.activeElement);
    keys.replaceChildren(...entries.map(entry));
    keys.hidden = entries.length === 0;
    if (focused >= 0) keys.querySelectorAll("button")[focused]?.focus();
    image.redraw();
    tabulate();
  }

  const shownControls = controls.filter((control) => control !== null);
  parent.append(
    el(
      "div",
      { class: "card" },
      heading,
      el("p", { class: "about" }, about),
      shownControls.length > 0 ? el("div", { class: "controls" }, shownControls) : null,
      keys,
      image.box,
      el("div", { class: "below" }, toggle),
      holder,
    ),
  );
  refresh();
  return { refresh };
}
