// Every table of a page is sorted where it stands by a click on a heading: figures the largest first, then turned round.
// How it was sorted stays in the address. What has an order of its own (parts of a whole, lists that the server sorts)
// says so by its class, and a total stays last.
"use strict";

const OWN_ORDER = ".went, .matrix, .runs";
const TOTAL = "total";
const TIMES = { ms: 1e-3, s: 1, min: 60, h: 3600, d: 86_400 };
const SIZES = {
  kB: 1e3, KiB: 2 ** 10, MB: 1e6, MiB: 2 ** 20, GB: 1e9, GiB: 2 ** 30, TB: 1e12, TiB: 2 ** 40, PB: 1e15, PiB: 2 ** 50,
  thousand: 1e3, million: 1e6, billion: 1e9, trillion: 1e12, K: 1e3, M: 1e6, B: 1e9, T: 1e12, EB: 1e18,
};
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const MOMENT = /^[A-Z][a-z]{2} (\d{1,2}) ([A-Z][a-z]{2})(?: (\d{2}):(\d{2}))?/;

// What a cell comes to, in one unit; null where it says no number. "70 h 30 min" is one, "$1.2 million" too.
function figureOf(text) {
  const parts = [...text.matchAll(/(\d[\d,]*\.?\d*|\.\d+)\s*([A-Za-z]*)/g)];
  if (!parts.length) return null;
  const number = (part) => Number.parseFloat(part[1].replaceAll(",", ""));
  const isLength = parts[0][2] in TIMES;
  const told = isLength ? parts.filter((part) => part[2] in TIMES) : parts.slice(0, 1);
  const size = told.reduce((sum, part) => sum + number(part) * (TIMES[part[2]] ?? SIZES[part[2]] ?? 1), 0);
  return /^[^\d]*[-−]\W*\.?\d/.test(text) ? -size : size;
}

function momentOf(text) {
  const [, day, month, hour, minute] = MOMENT.exec(text) ?? [];
  return month ? ((MONTHS.indexOf(month) * 31 + Number(day)) * 24 + Number(hour ?? 0)) * 60 + Number(minute ?? 0) : null;
}

function valueOf(row, column, figures) {
  const text = row.cells[column]?.textContent.trim() ?? "";
  return figures ? figureOf(text) : momentOf(text) ?? text;
}

// What is not known comes last, however it is turned.
function compared(one, other, falling) {
  if (one === null || other === null) return (one === null) - (other === null);
  const rising = typeof one === "number" && typeof other === "number" ? one - other : String(one).localeCompare(String(other), undefined, { numeric: true });
  return falling ? -rising : rising;
}

function sortBy(table, head, falling) {
  const figures = head.classList.contains("number");
  for (const body of table.tBodies) {
    const rows = [...body.rows].filter((row) => !row.classList.contains(TOTAL));
    const totals = [...body.rows].filter((row) => row.classList.contains(TOTAL));
    const of = new Map(rows.map((row) => [row, valueOf(row, head.cellIndex, figures)]));
    body.append(...rows.sort((one, other) => compared(of.get(one), of.get(other), falling)), ...totals);
  }
  table.querySelectorAll("[aria-sort]").forEach((each) => each.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", falling ? "descending" : "ascending");
}

// What a table is called in the address: its sheet, or what names it.
function keyOf(table) {
  const around = table.closest("[aria-labelledby], [aria-label]");
  const name = table.dataset.csv?.replace(/\.csv$/, "") ?? around?.getAttribute("aria-labelledby") ?? around?.getAttribute("aria-label") ?? "table";
  return name.toLowerCase().replace(/[^a-z0-9]+/g, "-");
}

function keepOrder(key, column, falling) {
  const address = new URL(location.href);
  const others = address.searchParams.getAll("order").filter((each) => !each.startsWith(key + "."));
  address.searchParams.delete("order");
  [...others, `${key}.${column}.${falling ? "down" : "up"}`].forEach((each) => address.searchParams.append("order", each));
  history.replaceState(history.state, "", address);
}

function sortable(table) {
  const row = table.tHead?.rows[0];
  const plain = [...table.rows].every((each) => [...each.cells].every((cell) => cell.colSpan === 1)); // each row is one thing
  const rows = [...table.tBodies].reduce((sum, body) => sum + body.rows.length, 0);
  if (!row || !plain || rows < 2 || table.matches(OWN_ORDER) || row.querySelector(".sorts, a")) return;
  const key = keyOf(table);
  for (const head of [...row.cells].filter((each) => each.textContent.trim() && !each.classList.contains("share"))) {
    const way = document.createElement("button");
    way.type = "button";
    way.className = "sorts";
    way.append(...head.childNodes);
    way.addEventListener("click", () => {
      const now = head.getAttribute("aria-sort");
      const falling = now ? now === "ascending" : head.classList.contains("number");
      sortBy(table, head, falling);
      keepOrder(key, head.cellIndex, falling);
    });
    head.append(way);
  }
  const kept = new URLSearchParams(location.search).getAll("order").map((each) => each.split(".")).find(([name]) => name === key);
  const head = kept && row.cells[Number(kept[1])];
  if (head?.querySelector(".sorts")) sortBy(table, head, kept[2] === "down");
}

// On a phone a table that is wider than the window folds: each row is a card, each figure under its heading. The headings
// stay above them, to sort by.
function folding(table) {
  const around = table.closest(".scroll");
  const row = table.tHead?.rows[0];
  if (!around || !row || table.matches(OWN_ORDER) || !matchMedia("(max-width: 40rem)").matches || around.scrollWidth <= around.clientWidth) return;
  const heads = [...row.cells].map((head) => head.textContent.trim());
  for (const each of [...table.tBodies].flatMap((body) => [...body.rows]).concat([...(table.tFoot?.rows ?? [])])) {
    [...each.cells].forEach((cell, place) => { if (place) cell.dataset.label = heads[place] ?? ""; });
  }
  table.classList.add("folds");
}

function arranged(root) {
  root.querySelectorAll("table").forEach((table) => { sortable(table); folding(table); });
}

arranged(document);
document.addEventListener("toggle", (event) => arranged(event.target), true); // what was shut had no width
addEventListener("resize", () => document.querySelectorAll("table").forEach(folding)); // a phone was turned
