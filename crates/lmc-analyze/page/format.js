// Numbers and names as text for people. Null is a dash.

const DASH = "–";

// A number that can be drawn, or null.
const num = (value) => (typeof value === "number" && Number.isFinite(value) ? value : null);

// A list or an object of the data, or an empty one.
const list = (value) => (Array.isArray(value) ? value : []);
const table = (value) =>
  value !== null && typeof value === "object" && !Array.isArray(value) ? value : {};

// A field by a name from the data, which may be "__proto__".
const own = (object, key) =>
  object !== null && typeof object === "object" && Object.hasOwn(object, key) ? object[key] : null;

const orDash = (write) => (value) => (num(value) === null ? DASH : write(value));

// At least three significant digits, and no exponent for what can be read without.
function significant(value) {
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 1000) return Math.round(value).toLocaleString("en-US");
  if (size >= 100) return value.toFixed(0);
  if (size >= 10) return value.toFixed(1);
  if (size >= 1) return value.toFixed(2);
  if (size >= 0.001) return value.toFixed(2 - Math.floor(Math.log10(size)));
  return value.toExponential(1);
}

// What stands at an axis: no zeros at the end.
const tick = (write) => (value) => write(value).replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "");

// A time at an axis, such as 10 min.
const timeTick = (value) =>
  value < 60 ? `${value} s` : value < 3600 ? `${value / 60} min` : `${value / 3600} h`;

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

// The unit for sizes up to this, as [name, bytes].
function unitFor(bytes) {
  let unit = 0;
  while (unit + 1 < UNITS.length && Math.abs(bytes) >= 1024 ** (unit + 1)) unit += 1;
  return [UNITS[unit], 1024 ** unit];
}

const fmt = {
  plain: orDash(significant),
  count: orDash((value) => Math.round(value).toLocaleString("en-US")),
  bits: orDash((value) => value.toFixed(3)),
  ratio: orDash((value) =>
    value >= 1e6 ? `${value.toExponential(1)}×` : `${value >= 100 ? significant(value) : value.toFixed(2)}×`,
  ),
  share: orDash((value) => `${significant(value * 100)} %`),
  bytes: orDash((value) => {
    const [name, size] = unitFor(value);
    return `${size === 1 ? Math.round(value) : significant(value / size)} ${name}`;
  }),
  speed: orDash((value) => `${fmt.bytes(value)}/s`),
  seconds: orDash((value) => {
    if (value === 0) return "0 s";
    if (value < 1) return `${significant(value * 1000)} ms`;
    if (value < 120) return `${significant(value)} s`;
    if (value < 7200) return `${significant(value / 60)} min`;
    if (value < 172800) return `${significant(value / 3600)} h`;
    return `${significant(value / 86400)} days`;
  }),
  text: (value) => (value === null || value === undefined ? DASH : shown(String(value))),
  date: orDash((value) => {
    const text = new Date(Math.abs(value) > 8.64e15 ? 0 : value).toISOString();
    return `${text.slice(0, 10)} ${text.slice(11, 16)}`;
  }),
};

// A name that may be hostile: what cannot be seen, ends a line or turns the direction of text
// becomes its number, and what is too long is cut in the middle.
function shown(text, most = 120) {
  const characters = Array.from(text.length > 4096 ? `${text.slice(0, 2048)}…${text.slice(-2048)}` : text);
  const cut =
    characters.length > most
      ? [...characters.slice(0, most / 2), "…", ...characters.slice(1 - most / 2)]
      : characters;
  return cut
    .map((c) =>
      /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/u.test(c)
        ? `\\u{${c.codePointAt(0).toString(16)}}`
        : c,
    )
    .join("");
}

// The name of a tensor or a kind in a narrow place: without what most names share, and only then cut.
function brief(name, most) {
  const shorter = [
    (text) => text,
    (text) => text.replace(/\.weight$/, ""),
    (text) => text.replace(/^(?:(?:model|module|transformer|_orig_mod)\.)*(?:layers|h|blocks)\./, ""),
  ];
  let text = name;
  for (const step of shorter) {
    text = step(text);
    if (text.length <= most) break;
  }
  return shown(text, Math.max(4, most));
}

const plural = (count, word) => `${fmt.count(count)} ${word}${count === 1 ? "" : "s"}`;

// What the page shows. Any part may be missing.
const data = table(JSON.parse(document.getElementById("data").textContent));
