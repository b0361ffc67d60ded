// A run over time: its figure is made in Python (analyzer/charts/lanes.py), one for each zoom. What is there is moved at
// once wherever one zooms to; what is finer follows from the server.
"use strict";

(() => {
  const section = document.getElementById("timeline");
  if (!section) return;
  const holder = document.getElementById("lanes");
  const figure = document.getElementById("lanes-data");
  const said = document.getElementById("lanes-said");
  const line = document.getElementById("lanes-mark");
  const ranked = document.getElementById("ranked");
  const KNOWN = [Number(section.dataset.start), Number(section.dataset.end)];
  const SECOND = 1e6, LEAST = 10 * SECOND, MERE_CLICK = 4, ROWS_SHOWN = 1000, KEPT = 24;
  const kept = new Map(); // zooms that were fetched before, by their address
  let span = addressed();
  let asking = null, waiting = 0, shifting = 0;
  let drag = null; // from where to where, in pixels

  // --- time ---------------------------------------------------------------------------------------------------------

  const format = (parts) => new Intl.DateTimeFormat("en-GB", { timeZone: section.dataset.timezone, weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", ...parts });
  const [minutes, seconds] = [format({}), format({ second: "2-digit" })];
  const moment = (at) => (span[1] - span[0] < 7200 * SECOND ? seconds : minutes).format(at / 1000).replaceAll(",", "");
  const onAxis = (at) => (at - KNOWN[0]) / SECOND; // as the figure has it: seconds since the run was first known
  const ofAxis = (x) => KNOWN[0] + x * SECOND;
  const inside = (event) => event.clientX - holder.getBoundingClientRect().left;

  // Returns the moment at so many pixels from the left.
  function timeAt(x) {
    const { l, r } = holder.layout.margin;
    const share = (x - l) / (holder.clientWidth - l - r);
    return span[0] + Math.max(0, Math.min(1, share)) * (span[1] - span[0]);
  }

  // --- the address holds the state ----------------------------------------------------------------------------------

  function addressed() {
    const asked = new URLSearchParams(location.search);
    const [start, end] = ["from", "until"].map((name) => Date.parse(asked.get(name) || "") * 1000);
    if (asked.get("ranks") && ranked.querySelector('option[value="' + CSS.escape(asked.get("ranks")) + '"]')) ranked.value = asked.get("ranks");
    return clipped([Number.isFinite(start) ? start : KNOWN[0], Number.isFinite(end) ? end : KNOWN[1]]);
  }

  function clipped([start, end]) {
    const length = Math.min(KNOWN[1] - KNOWN[0], Math.max(LEAST, end - start));
    const from = Math.max(KNOWN[0], Math.min(start, KNOWN[1] - length));
    return [Math.round(from), Math.round(from + length)];
  }

  const isWhole = () => span[0] <= KNOWN[0] && span[1] >= KNOWN[1];

  function remember() {
    const address = new URL(location.href);
    for (const [name, at] of [["from", span[0]], ["until", span[1]]]) {
      if (isWhole()) address.searchParams.delete(name);
      else address.searchParams.set(name, new Date(at / 1000).toISOString());
    }
    if (ranked.selectedIndex > 0) address.searchParams.set("ranks", ranked.value);
    else address.searchParams.delete("ranks");
    history.replaceState(null, "", address);
    document.getElementById("timeline-csv").href = query("csv");
  }

  // --- what is asked for --------------------------------------------------------------------------------------------

  function query(format) {
    const width = Math.min(2000, Math.ceil(holder.clientWidth / 200) * 200); // few widths, so that answers are kept for many
    const of = isWhole() ? "" : "&start=" + span[0] + "&end=" + span[1];
    return section.dataset.address + "?width=" + width + "&ranks=" + ranked.value + of + (format === "json" ? "" : "&format=" + format);
  }

  async function ask() {
    const address = query("json");
    asking?.abort();
    asking = new AbortController();
    holder.setAttribute("aria-busy", "true");
    const [text] = await Promise.all([kept.get(address) ?? fetched(address, asking.signal), withPlotly()]); // page.js
    if (address === query("json")) show(text);
  }

  async function fetched(address, signal) {
    const answer = await fetch(address, { signal, cache: "no-cache" });
    if (!answer.ok) throw new Error("the server answers " + answer.status);
    kept.set(address, await answer.text());
    if (kept.size > KEPT) kept.delete(kept.keys().next().value);
    return kept.get(address);
  }

  function askOrSay() {
    ask().catch((error) => { if (error.name !== "AbortError") said.textContent = "The timeline could not be loaded: " + error.message + "."; });
  }

  function show(text) {
    figure.textContent = text;
    holder.dataset.chart = figure.id;
    drawChart(holder); // draw.js
    holder.removeAttribute("aria-busy");
    numbers();
    const { start, end } = holder.layout.meta;
    section.dataset.shown = start + "-" + end;
  }

  function move(to) {
    span = clipped(to);
    remember();
    if (holder.data) shifting ||= requestAnimationFrame(() => setTimeout(shift)); // the hand is answered before it
    clearTimeout(waiting);
    waiting = setTimeout(askOrSay, 80);
  }

  // However often a key repeats meanwhile, what is there is moved once.
  function shift() {
    shifting = 0;
    Plotly.relayout(holder, { "xaxis.range": span.map(onAxis) });
  }

  // --- words --------------------------------------------------------------------------------------------------------

  const placeOf = (trace, x) => (trace.x ? trace.x.findLastIndex((each) => each <= x) : Math.floor((x - trace.x0) / trace.dx));

  function tell(at) {
    const x = onAxis(at);
    const near = (onAxis(span[1]) - onAxis(span[0])) / 150;
    const isMark = (trace) => trace.customdata;
    const told = holder.data.filter((trace) => trace.text);
    const marked = told.filter(isMark).flatMap((trace) => trace.text.filter((text, n) => text && trace.x[n] - near <= x && x <= trace.customdata[n] + near));
    const states = told.filter((trace) => trace.stackgroup).map((trace) => trace.text[placeOf(trace, x)]);
    const signals = told.filter((trace) => trace.dx).map((trace) => [trace.name, trace.text[placeOf(trace, x)]]);
    return moment(at) + ": " + [states.filter(Boolean).join(", "), ...signals.filter((each) => each[1]).map((each) => each.join(" ")), ...marked].filter(Boolean).join(" · ");
  }

  function numbers() {
    const details = document.getElementById("timeline-numbers");
    const into = details.querySelector("div");
    into.replaceChildren();
    if (!details.open) return;
    const lanes = holder.data.filter((trace) => trace.dx && trace.text);
    const table = document.createElement("table");
    const cell = (row, kind, text, n) => {
      const made = document.createElement(kind);
      made.textContent = text;
      if (n) made.className = "number";
      if (kind === "th") made.scope = "col";
      row.append(made);
    };
    const head = table.createTHead().insertRow();
    ["from", ...lanes.map((lane) => lane.name)].forEach((name, n) => cell(head, "th", name, n));
    const body = table.createTBody();
    const first = lanes[0];
    for (let n = 0; first && n < Math.min(ROWS_SHOWN, first.text.length); n++) {
      const x = first.x0 + n * first.dx;
      const row = body.insertRow();
      [moment(ofAxis(x)), ...lanes.map((lane) => lane.text[placeOf(lane, x)] || "–")].forEach((text, n) => cell(row, "td", text, n));
    }
    into.append(table);
  }

  // A line where one points, and the stretch that one drags over.
  function mark(from, until) {
    const stretch = from !== until;
    line.hidden = false;
    line.classList.toggle("stretch", stretch);
    line.style.left = Math.min(from, until) + "px";
    line.style.width = stretch ? Math.abs(until - from) + "px" : "";
  }

  function leave() {
    drag = null;
    line.hidden = true;
  }

  // --- what people do -----------------------------------------------------------------------------------------------

  const WAYS = {
    in: (length, middle) => [middle - length / 4, middle + length / 4],
    out: (length, middle) => [middle - length, middle + length],
    left: (length) => [span[0] - length / 3, span[1] - length / 3],
    right: (length) => [span[0] + length / 3, span[1] + length / 3],
    all: () => KNOWN,
  };
  const KEYS = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", 0: "all", Home: "all" };
  const act = (way) => move(WAYS[way](span[1] - span[0], (span[0] + span[1]) / 2));
  section.querySelectorAll("[data-zoom]").forEach((button) => button.addEventListener("click", () => act(button.dataset.zoom)));
  holder.addEventListener("keydown", (event) => {
    if (!(event.key in KEYS) || event.ctrlKey || event.metaKey || !holder.data) return;
    event.preventDefault();
    act(KEYS[event.key]);
    said.textContent = "From " + moment(span[0]) + " until " + moment(span[1]) + ". In the middle, " + tell((span[0] + span[1]) / 2);
  });
  holder.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !holder.data) return;
    holder.setPointerCapture(event.pointerId);
    drag = [inside(event), inside(event)];
  });
  holder.addEventListener("pointermove", (event) => {
    if (!holder.data) return;
    if (drag) drag[1] = inside(event);
    mark(...(drag ?? [inside(event), inside(event)]));
    said.textContent = tell(timeAt(inside(event)));
  });
  holder.addEventListener("pointerup", () => {
    if (!drag) return;
    const [from, until] = drag.sort((one, other) => one - other);
    leave();
    if (until - from > MERE_CLICK) move([timeAt(from), timeAt(until)]);
  });
  ["pointercancel", "pointerleave"].forEach((kind) => holder.addEventListener(kind, leave));
  holder.addEventListener("dblclick", () => act("out"));
  holder.addEventListener("wheel", (event) => {
    if (!(event.ctrlKey || event.metaKey || event.shiftKey) || !holder.data) return; // a plain wheel scrolls the page
    event.preventDefault();
    const at = timeAt(inside(event));
    const by = (event.deltaY || event.deltaX) > 0 ? 1.25 : 0.8;
    move([at - (at - span[0]) * by, at + (span[1] - at) * by]);
  }, { passive: false });
  ranked.addEventListener("change", () => move(span));
  document.getElementById("timeline-numbers").addEventListener("toggle", () => { if (holder.data) numbers(); });
  addEventListener("popstate", () => move(addressed()));

  // --- the profile --------------------------------------------------------------------------------------------------

  const make = document.getElementById("profile");
  const told = document.getElementById("profile-said");
  make.addEventListener("click", async () => {
    make.disabled = true;
    told.textContent = "Measuring…";
    try {
      const answer = await fetch(make.dataset.address);
      const found = await answer.json();
      if (!answer.ok) throw new Error(found.detail || "the server answers " + answer.status);
      const links = [["html", "text/html", found.page], ["json", "application/json", found.profile]].map(([end, type, text]) => {
        const link = document.createElement("a");
        link.href = URL.createObjectURL(new Blob([text], { type }));
        link.download = "profile-" + make.dataset.name + "." + end;
        link.textContent = end === "html" ? "the page" : "the signed file";
        return link;
      });
      told.replaceChildren("Made: ", links[0], ", ", links[1], ".");
    } catch (error) {
      told.textContent = "No profile: " + error.message;
    }
    make.disabled = false;
  });

  remember();
  askOrSay();
})();
