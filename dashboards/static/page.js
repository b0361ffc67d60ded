// What every page does: fetch its parts, keep what is live live, draw its charts, give out its numbers.
"use strict";

// Plotly writes no style of its own where an element of this id is there already: plotly.css has what its charts need.
const STYLES = "plotly.js-style-global";
const LIVE_SECONDS = 30;
const AT_ONCE = 2; // parts that are asked for at the same time
const ACCEPTED = 202; // the answer where there is nothing yet

// --- charts ---------------------------------------------------------------------------------------------------------

let plotly = null; // loaded once a chart comes into view, so that no page waits for it

function withPlotly() {
  plotly ??= new Promise((resolve, reject) => {
    const styles = document.createElement("meta");
    styles.id = STYLES;
    styles.className = "no-inline-styles";
    const script = document.createElement("script");
    script.src = document.getElementById("page-script").dataset.plotly;
    script.onload = resolve;
    script.onerror = reject;
    document.head.append(styles, script);
  });
  return plotly;
}

const inView = new IntersectionObserver((entries) => {
  for (const entry of entries.filter((each) => each.isIntersecting)) {
    inView.unobserve(entry.target);
    withPlotly().then(() => setTimeout(drawChart, 0, entry.target)); // a task of its own: a hand is answered before it
  }
}, { rootMargin: "200px" });

// --- what a fragment brings ---------------------------------------------------------------------------------------

function save(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

// As csv_text of analyzer/text/table.py: no spreadsheet may compute a name, what is a figure is one, without its sign and
// separators, and letters beyond ASCII need a mark.
const FORMULA = /^\s*[=+\-@＝＋－＠]/;
const FIGURE = /^[+\-−]?[$€£¥₩]?\d[\d,]*(\.\d+)?$/;
const BLANK = /[\u0000-\u001f\u007f\u0085\u00a0\u202f\u2028\u2029]/g;

function csvCell(text) {
  const flat = text.replace(BLANK, " ");
  if (FIGURE.test(flat)) return flat.replace(/[,$€£¥₩+]/g, "").replace("−", "-");
  return '"' + (FORMULA.test(flat) ? "'" + flat : flat).replace(/"/g, '""') + '"';
}

function sheet(rows) {
  const made = rows.map((row) => row.map(csvCell).join(",")).join("\r\n") + "\r\n";
  return /[^\u0000-\u007f]/.test(made) ? "\ufeff" + made : made;
}

function rowsOf(table) {
  const cells = (row) => [...row.cells].filter((each) => !each.classList.contains("share")); // bars are pictures
  return [...table.rows].map((row) => cells(row).map((each) => each.textContent.trim()));
}

// Of the grid a row is a cell; of a large fleet a node.
function rowsOfGrid(racks) {
  const rack = (each) => each.closest(".rack").querySelector("h3").textContent;
  const told = (each) => (each.title || each.getAttribute("aria-label")).split(/: (.*)/s);
  const cells = racks.querySelectorAll(racks.matches(".lettered") ? ".cell" : "svg a");
  return [["rack", "where", "what it did"], ...[...cells].map((each) => [rack(each), ...told(each).slice(0, 2)])];
}

function button(text, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  made.addEventListener("click", () => act(made));
  return made;
}

function taken(name, rows) {
  const made = button("CSV", () => save(name, "text/csv", sheet(rows())));
  made.setAttribute("aria-label", "CSV, " + name);
  return made;
}

function enhance(root) {
  root.querySelectorAll("[data-chart]").forEach((holder) => inView.observe(holder));
  root.querySelectorAll("table[data-csv]").forEach((table) => {
    const made = taken(table.dataset.csv, () => rowsOf(table));
    if (table.caption) table.caption.append(made);
    else table.parentElement.before(made);
  });
  arranged(root); // sort.js
  root.querySelectorAll(".advice pre").forEach((lines) => {
    const made = button("Copy", () => copy(made, lines)); // copy.js
    made.setAttribute("aria-live", "polite");
    lines.before(made);
  });
  root.querySelectorAll(".racks").forEach((racks) => root.querySelector(".when").append(" ", taken("fleet.csv", () => rowsOfGrid(racks))));
  if (root.querySelector(".racks")) pick(new URLSearchParams(location.search).get("only"));
}

// --- parts: what is asked for after the page is there -------------------------------------------------------------

const shown = new WeakMap(); // what a part showed last, so that only what changed is replaced
let told = false; // whether a part shows something else than before

// A part that is not there yet, or is of the ledger before, is asked for again: what was there first stays until then.
async function fill(holder, address, headers = {}) {
  const answer = await fetch(address, { cache: "no-cache", headers });
  const text = await answer.text();
  if (answer.status === ACCEPTED) return true;
  if (!answer.ok) {
    if (!shown.has(holder)) holder.innerHTML = '<p class="quiet">This part could not be read: the server answers ' + answer.status + ".</p>";
  } else if (shown.get(holder) !== text && !holder.contains(document.activeElement)) {
    const open = [...holder.querySelectorAll("details")].map((each) => each.open);
    holder.innerHTML = text;
    holder.querySelectorAll("details").forEach((each, place) => { each.open = open[place] ?? each.open; });
    told ||= shown.has(holder);
    shown.set(holder, text);
    enhance(holder);
  }
  holder.setAttribute("aria-busy", "false");
  return answer.headers.has("refresh");
}

// Returns those that are to be asked for again.
async function fillAll(holders, name, headers) {
  const waiting = [...holders];
  const again = [];
  const next = async () => {
    for (let holder = waiting.shift(); holder; holder = waiting.shift()) {
      const is_old = await fill(holder, holder.dataset[name], headers).catch(() => holder.setAttribute("aria-busy", "false"));
      if (is_old) again.push(holder);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, next));
  return again;
}

// First whatever there is of each part, then what is missing, in their order.
async function fillParts() {
  const parts = [...document.querySelectorAll("[data-part]")];
  const again = new Set(await fillAll(parts, "part", { Prefer: "wait=0" }));
  await fillAll(parts.filter((each) => again.has(each)), "part");
}

// --- the grid -------------------------------------------------------------------------------------------------------

function pick(label) {
  const racks = document.querySelector(".racks");
  if (!racks) return;
  document.querySelectorAll(".key[data-label]").forEach((key) => key.setAttribute("aria-pressed", String(key.dataset.label === label)));
  racks.querySelectorAll(".picked").forEach((cell) => cell.classList.remove("picked"));
  const cells = label ? racks.querySelectorAll('[data-label="' + CSS.escape(label) + '"]') : []; // of a large fleet a few shapes
  cells.forEach((cell) => cell.classList.add("picked"));
  racks.classList.toggle("only", cells.length > 0);
}

function said(changes) {
  const address = new URL(location.href);
  for (const [name, value] of Object.entries(changes)) {
    if (value) address.searchParams.set(name, value);
    else address.searchParams.delete(name);
  }
  history.replaceState(null, "", address);
}

document.addEventListener("click", (event) => {
  const key = event.target.closest(".key[data-label]");
  if (key) {
    const label = key.getAttribute("aria-pressed") === "true" ? null : key.dataset.label;
    pick(label);
    said({ only: label });
  }
  const way = event.target.closest("a[data-into], a[data-close]");
  if (!way || event.metaKey || event.ctrlKey) return;
  event.preventDefault();
  const asked = new URL(way.getAttribute("href"), location.href).searchParams; // in a picture a link has no plain href
  said({ node: asked.get("node") });
  const holder = document.getElementById(way.dataset.into || way.dataset.close);
  if (way.dataset.close) holder.replaceChildren();
  else fill(holder, document.getElementById("grid").dataset.live.split("/parts/")[0] + "/parts/node?" + asked).then(() => holder.scrollIntoView({ block: "nearest" }));
});

// The arrow keys walk through the grid: one stop for the tabulator, however many nodes there are.
function walk(event) {
  const from = event.target.closest(".racks a");
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: "down", ArrowUp: "up", Home: "first", End: "last" };
  if (!from || !(event.key in steps)) return;
  const ways = [...from.closest(".racks").querySelectorAll("a")];
  const step = steps[event.key];
  const to = step === "first" ? ways[0] : step === "last" ? ways.at(-1) : typeof step === "number" ? ways[ways.indexOf(from) + step] : beyond(from, ways, step === "down" ? 1 : -1);
  event.preventDefault();
  if (!to) return;
  from.tabIndex = -1;
  to.tabIndex = 0;
  to.focus();
}

function beyond(from, ways, sign) {
  const here = from.getBoundingClientRect();
  let best = null;
  let least = Infinity;
  for (const way of ways) {
    const there = way.getBoundingClientRect();
    const down = sign * (there.top - here.top);
    const apart = down > 6 ? down * 4 + Math.abs(there.left - here.left) : Infinity;
    if (apart < least) [best, least] = [way, apart];
  }
  return best;
}

function oneStop() {
  document.querySelectorAll(".racks").forEach((racks) => {
    racks.querySelectorAll("a").forEach((way, place) => { way.tabIndex = place ? -1 : 0; });
  });
}

document.addEventListener("keydown", walk);

// --- from the start -------------------------------------------------------------------------------------------------

// A screen reader hears once that there is something new, not every cell of it.
async function live() {
  if (document.hidden) return;
  told = false;
  await fillAll(document.querySelectorAll("[data-live]"), "live");
  oneStop();
  await fillAll(document.querySelectorAll("[data-part]"), "part");
  if (told) document.getElementById("news").textContent = "New figures since " + new Date().toLocaleTimeString() + ".";
}

enhance(document);
oneStop();
fillParts();
if (document.querySelector("[data-live]")) setInterval(live, LIVE_SECONDS * 1000);
