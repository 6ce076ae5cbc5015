// Elements made and filled by text alone: whatever a job, a task or a log says stays text.

import { DASH } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== undefined && value !== null) node.setAttribute(name, value);
  }
  node.append(...children.flat(2).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** el("a", {href: "/", onclick: f}, "words", child) */
export const el = (tag, props = {}, ...children) => fill(document.createElement(tag), props, children);
export const svg = (tag, props = {}, ...children) => fill(document.createElementNS(SVG, tag), props, children);

/** Changes text only if it is another one, so that a selection stays and a reader is not told again. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function show(node, visible) {
  if (node.hidden === visible) node.hidden = !visible;
}

/**
 * Makes `parent` have one child for each item, in their order, and keeps those that it has. So focus and scrolling
 * survive. `make(item)` gives a node, `update(node, item)` fills it.
 */
export function keep(parent, items, keyOf, make, update) {
  const known = (parent.kept ??= new Map());
  const wanted = new Set(items.map(keyOf));
  for (const [key, node] of known) {
    if (wanted.has(key)) continue;
    node.remove();
    known.delete(key);
  }
  let before = parent.firstChild;
  for (const item of items) {
    const key = keyOf(item);
    let node = known.get(key);
    if (!node) known.set(key, (node = make(item)));
    update(node, item);
    if (node === before) before = before.nextSibling;
    else parent.insertBefore(node, before);
  }
}

/**
 * A table that becomes one card for each row where it is narrow. `columns`: [{name, number, optional, make, update}];
 * one that is optional is put away while no row has anything in it. Roles are said, since a browser forgets those of a
 * table that is laid out otherwise.
 */
export function table(label, columns) {
  const head = el("tr", { role: "row" }, columns.map((c) =>
    el("th", { role: "columnheader", scope: "col", class: c.number && "number" }, c.name)));
  const body = el("tbody", { role: "rowgroup" });
  const node = el("table", { role: "table", "aria-label": label, class: "cards" },
    el("thead", { role: "rowgroup" }, head), body);
  const makeRow = (item) => el("tr", { role: "row" }, columns.map((c, i) =>
    el(i === 0 ? "th" : "td", {
      role: i === 0 ? "rowheader" : "cell",
      scope: i === 0 && "row",
      class: c.number && "number",
      "data-label": c.name,
    }, c.make ? c.make(item) : [])));
  const updateRow = (row, item) => columns.forEach((c, i) => {
    const cell = row.children[i];
    if (c.update) c.update(cell, item);
    else if (c.text) say(cell, c.text(item) ?? DASH);
    cell.toggleAttribute("data-empty", cell.textContent === DASH);
  });
  const putAway = () => columns.forEach((c, i) => {
    if (!c.optional) return;
    const cells = [...body.children].map((row) => row.children[i]);
    const isEmpty = cells.every((cell) => cell.hasAttribute("data-empty"));
    for (const cell of [head.children[i], ...cells]) show(cell, !isEmpty);
  });
  const update = (items, keyOf) => {
    keep(body, items, keyOf, makeRow, updateRow);
    putAway();
  };
  return { node, update };
}

/** A row of figures; each `update` gives the values in order. Those that are not known are left out. */
export function tiles(names) {
  const values = names.map(() => el("dd", {}, DASH));
  const node = el("dl", { class: "tiles" },
    names.map((name, i) => el("div", { hidden: true }, el("dt", {}, name), values[i])));
  const update = (texts) => texts.forEach((text, i) => {
    say(values[i], text);
    show(values[i].parentNode, text !== DASH);
  });
  return { node, update };
}

/** Said once to a screen reader, when what it would not find by itself has changed. */
export function announce(words) {
  document.getElementById("announce").textContent = words;
}

export function section(id, title, ...children) {
  return el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, title), ...children);
}
