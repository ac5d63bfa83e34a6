// Elements. Text goes in as text, never as markup, and styles come from the style sheet.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false)
      node.setAttribute(name, String(value));
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) node.append(child);
  }
  return node;
}

const el = (tag, attributes, ...children) =>
  fill(document.createElement(tag), attributes, children);
const svgEl = (tag, attributes, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

let ids = 0;
const newId = (word) => `${word}-${(ids += 1)}`;

// A section of the page, and its place in the navigation.
function section(id, name, title, about) {
  const heading = el("h2", { id: `${id}-title` }, title);
  const node = el("section", { id, "aria-labelledby": `${id}-title` }, heading);
  if (about) node.append(el("p", { class: "about" }, about));
  document.getElementById("main").append(node);
  document.getElementById("nav").append(el("a", { href: `#${id}` }, name));
  return node;
}

// One line in place of what the data does not have.
const nothing = (parent, text) => parent.append(el("p", { class: "nothing" }, text));

const notice = (parent, title, lines) =>
  parent.append(
    el(
      "div",
      { class: "notice", role: "note" },
      el("strong", null, title),
      el("ul", null, lines.map((line) => el("li", null, line))),
    ),
  );

// Figures in large type: [label, value, explanation].
const tiles = (parent, entries) =>
  parent.append(
    el(
      "dl",
      { class: "tiles" },
      entries.map(([label, value, about]) =>
        el(
          "div",
          null,
          el("dt", null, label),
          el("dd", null, value, about ? el("small", null, about) : null),
        ),
      ),
    ),
  );

// A choice among [value, text]; a menu if they are many, and buttons if they are few.
function choice(label, options, value, change) {
  if (options.length < 2) return null;
  const room = options.reduce((sum, [, text]) => sum + text.length + 3, 0);
  if (options.length <= 4 && room <= 64) {
    const buttons = options.map(([key, text]) =>
      el(
        "button",
        {
          type: "button",
          "aria-pressed": String(key === value),
          "data-value": key,
          onclick: (event) => {
            for (const other of buttons)
              other.setAttribute("aria-pressed", String(other === event.currentTarget));
            change(key);
          },
        },
        text,
      ),
    );
    return el("div", { class: "control", role: "group", "aria-label": label },
      el("span", { class: "label", "aria-hidden": "true" }, label),
      el("span", { class: "buttons" }, buttons));
  }
  const select = el(
    "select",
    { "aria-label": label, onchange: () => change(options[select.selectedIndex][0]) },
    options.map(([key, text]) =>
      el("option", { value: key, selected: key === value }, text),
    ),
  );
  return el("label", { class: "control" }, el("span", { class: "label" }, label), select);
}

// A slider over whole numbers from 0 to `most`; `text` says what a position means.
function slider(label, most, position, text, change) {
  const output = el("output", null, text(position));
  const input = el("input", {
    type: "range",
    "aria-label": label,
    min: 0,
    max: most,
    step: 1,
    value: position,
    "aria-valuetext": text(position),
    oninput: () => {
      change(Number(input.value));
      show(Number(input.value));
    },
  });
  const show = (at) => {
    const words = text(at);
    output.textContent = words;
    input.setAttribute("aria-valuetext", words);
  };
  const node = el("label", { class: "control slider" },
    el("span", { class: "label" }, label), input, output);
  return Object.assign(node, {
    setPosition: (at) => {
      input.value = at;
      show(at);
    },
  });
}

// A search field that reports what it holds, a moment after the last key.
function searchField(label, change) {
  let timer = 0;
  const input = el("input", {
    type: "search",
    placeholder: label,
    "aria-label": label,
    spellcheck: "false",
    autocomplete: "off",
    oninput: () => {
      clearTimeout(timer);
      timer = setTimeout(() => change(input.value.trim().toLowerCase()), 120);
    },
  });
  return el("span", { class: "control" }, input);
}

// The theme: that of the system until the button is used.
function themeButton() {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const button = el("button", { type: "button", class: "theme" });
  const isDark = () => (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const show = () => {
    button.textContent = isDark() ? "Light theme" : "Dark theme";
    root.dispatchEvent(new Event("themechange"));
  };
  const stored = (write) => {
    // A browser may keep no storage for files; then the choice holds for this visit.
    try {
      return write();
    } catch {
      return null;
    }
  };
  const kept = stored(() => localStorage.getItem("lmc-theme"));
  if (kept === "dark" || kept === "light") root.dataset.theme = kept;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    stored(() => localStorage.setItem("lmc-theme", root.dataset.theme));
    show();
  });
  system.addEventListener("change", show);
  show();
  return button;
}
