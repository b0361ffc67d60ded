// A run over time. What is there is drawn anew at once wherever one zooms to; what is finer follows from the server.
"use strict";

(() => {
  const section = document.getElementById("timeline");
  if (!section) return;
  const canvas = document.getElementById("lanes");
  const pen = canvas.getContext("2d");
  const said = document.getElementById("lanes-said");
  const ranked = document.getElementById("ranked");
  const KNOWN = [Number(section.dataset.start), Number(section.dataset.end)];
  const SECOND = 1e6, LEAST = 10 * SECOND, MERE_CLICK = 4, ROWS_SHOWN = 1000, KEPT = 24;
  const RIBBON = 40, MARKS = 14, LANE = 46, GAP = 8, AXIS = 22, RANK = 9;
  const NARROW = 600;
  const kept = new Map(); // zooms that were fetched before, by their address
  let span = addressed();
  let zoom = null; // the data that is shown, of its own span
  let heat = null; // the ranks as a picture, a pixel a value
  let drag = null, pointer = null, asking = null, waiting = 0;

  // --- time ---------------------------------------------------------------------------------------------------------

  const zone = section.dataset.timezone;
  const formats = {
    day: new Intl.DateTimeFormat("en-GB", { timeZone: zone, weekday: "short", day: "numeric", month: "short" }),
    minute: new Intl.DateTimeFormat("en-GB", { timeZone: zone, hour: "2-digit", minute: "2-digit" }),
    second: new Intl.DateTimeFormat("en-GB", { timeZone: zone, hour: "2-digit", minute: "2-digit", second: "2-digit" }),
  };
  const words = (format, at) => formats[format].format(at / 1000).replace(",", "");
  const moment = (at) => words("day", at) + " " + words(span[1] - span[0] < 7200 * SECOND ? "second" : "minute", at);
  const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800].map((each) => each * SECOND);

  function ticks(most) {
    const step = STEPS.find((each) => (span[1] - span[0]) / each <= most) || STEPS.at(-1);
    const local = new Date(new Date(span[0] / 1000).toLocaleString("en-US", { timeZone: zone })).getTime();
    const shift = Math.round((local - Math.floor(span[0] / 1e6) * 1000) / 60000) * 60 * SECOND; // days begin at local midnight
    const found = [];
    for (let at = Math.ceil((span[0] + shift) / step) * step - shift; at < span[1]; at += step) found.push(at);
    return { step, found };
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

  function remember() {
    const address = new URL(location.href);
    const whole = span[0] <= KNOWN[0] && span[1] >= KNOWN[1];
    for (const [name, at] of [["from", span[0]], ["until", span[1]]]) {
      if (whole) address.searchParams.delete(name);
      else address.searchParams.set(name, new Date(at / 1000).toISOString());
    }
    if (ranked.selectedIndex > 0) address.searchParams.set("ranks", ranked.value);
    else address.searchParams.delete("ranks");
    history.replaceState(null, "", address);
    document.getElementById("timeline-csv").href = query("csv");
  }

  // --- what is asked for --------------------------------------------------------------------------------------------

  function query(format) {
    const width = Math.min(2000, Math.ceil(plot().width / 200) * 200); // few widths, so that answers are kept for many
    const whole = span[0] <= KNOWN[0] && span[1] >= KNOWN[1];
    const of = whole ? "" : "&start=" + span[0] + "&end=" + span[1];
    return section.dataset.address + "?width=" + width + "&ranks=" + ranked.value + of + (format === "json" ? "" : "&format=" + format);
  }

  async function ask() {
    const address = query("json");
    if (kept.has(address)) return show(kept.get(address));
    asking?.abort();
    asking = new AbortController();
    canvas.setAttribute("aria-busy", "true");
    const answer = await fetch(address, { signal: asking.signal, cache: "no-cache" });
    if (!answer.ok) throw new Error("the server answers " + answer.status);
    const data = await answer.json();
    kept.set(address, data);
    if (kept.size > KEPT) kept.delete(kept.keys().next().value);
    if (address === query("json")) show(data);
  }

  function show(data) {
    zoom = data;
    heat = picture(data.ranks);
    canvas.style.height = height() + "px";
    canvas.removeAttribute("aria-busy");
    legend();
    draw();
    numbers();
    section.dataset.shown = data.start + "-" + data.end;
  }

  function move(to) {
    span = clipped(to);
    remember();
    draw(); // at once, from what is there
    clearTimeout(waiting);
    waiting = setTimeout(() => ask().catch((error) => { if (error.name !== "AbortError") said.textContent = "The timeline could not be read: " + error.message + "."; }), 80);
  }

  // --- drawing ------------------------------------------------------------------------------------------------------

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const scale = devicePixelRatio || 1;

  function plot() {
    const narrow = canvas.clientWidth < NARROW;
    const left = narrow ? 4 : 108;
    const right = narrow ? 4 : 76;
    return { left, right, width: Math.max(50, canvas.clientWidth - left - right), narrow };
  }

  const gap = () => plot().narrow ? GAP + 10 : GAP; // above its lane there is room for a label, where beside it is none

  function height() {
    const ranks = zoom?.ranks ? GAP * 2 + Math.max(24, zoom.ranks.rows.length * RANK) + 16 : 0;
    return MARKS + RIBBON + (zoom ? zoom.lanes.length : 7) * (LANE + gap()) + ranks + AXIS + GAP * 2;
  }

  const across = (at, room) => room.left + ((at - span[0]) / (span[1] - span[0])) * room.width;

  function draw() {
    const room = plot();
    const high = height();
    const [wide, tall] = [Math.round(canvas.clientWidth * scale), Math.round(high * scale)];
    if (canvas.width !== wide || canvas.height !== tall) [canvas.width, canvas.height] = [wide, tall];
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, canvas.clientWidth, high);
    if (!zoom) return;
    const ink = { line: colour("line"), quiet: colour("quiet"), ink: colour("ink"), card: colour("card"), mark: colour("link"), paper: colour("paper") };
    pen.font = "12px " + getComputedStyle(canvas).fontFamily;
    pen.save();
    pen.beginPath();
    pen.rect(room.left, 0, room.width, high);
    pen.clip();
    let top = MARKS;
    const apart = gap();
    grid(room, high - AXIS, ink);
    marks(room, ink);
    ribbon(room, top);
    pen.restore();
    label("states", "", top, RIBBON, room, ink);
    top += RIBBON + apart;
    for (const lane of zoom.lanes) {
      signal(lane, top, room, ink);
      top += LANE + apart;
    }
    if (zoom.ranks && heat) ranks(top + GAP, room, ink);
    axis(room, high, ink);
    overlay(room, high, ink);
  }

  function grid(room, bottom, ink) {
    pen.fillStyle = ink.line;
    for (const at of ticks(room.width / 90).found) pen.fillRect(Math.round(across(at, room)), MARKS, 1, bottom - MARKS);
  }

  function ribbon(room, top) {
    const { starts, step, bands } = zoom.ribbon;
    const seen = {};
    const base = new Array(starts.length).fill(0);
    for (const band of bands) {
      const place = (seen[band.klass] = (seen[band.klass] || 0) + 1);
      const inks = band.klass === "avoidable" ? [colour(band.klass), hatched()] : [colour(band.klass)];
      starts.forEach((at, n) => {
        const [x, until] = [across(at, room), across(at + step, room)];
        const part = band.shares[n] * RIBBON;
        const tall = part > 3 ? part - 1 : part; // a gap parts bands, for whom their colours are alike
        pen.globalAlpha = 1 / (1 + 0.35 * (place - 1));
        for (const one of part ? inks : []) {
          pen.fillStyle = one;
          pen.fillRect(x, top + base[n], Math.max(0.5, until - x - (until - x > 6 ? 1 : 0)), tall);
          pen.globalAlpha = 1;
        }
        base[n] += part;
      });
    }
    pen.globalAlpha = 1;
  }

  function hatched() {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 7;
    const own = tile.getContext("2d");
    own.strokeStyle = colour("paper");
    for (const off of [-7, 0, 7]) { own.moveTo(off, 7); own.lineTo(off + 7, 0); }
    own.stroke();
    return pen.createPattern(tile, "repeat");
  }

  function marks(room, ink) {
    for (const mark of zoom.marks) {
      const [x, until] = [across(mark.start, room), across(mark.end, room)];
      if (mark.kind === "stall") {
        pen.fillStyle = colour("avoidable");
        pen.fillRect(x, MARKS - 4, Math.max(2, until - x), 3);
      } else {
        pen.fillStyle = ink.ink;
        pen.beginPath();
        pen.moveTo(x - 3.5, 1);
        pen.lineTo(x + 3.5, 1);
        pen.lineTo(x, 8);
        pen.fill();
      }
    }
  }

  function label(title, most, top, tall, room, ink) {
    pen.textBaseline = "middle";
    pen.textAlign = room.narrow ? "left" : "right";
    pen.fillStyle = ink.quiet;
    if (room.narrow) {
      pen.fillStyle = ink.ink;
      pen.fillText(most ? title + ", top " + most : "", room.left, top - 7);
      return;
    }
    pen.fillText(title, room.left - 10, top + tall / 2);
    pen.textAlign = "left";
    pen.fillText(most, room.left + room.width + 8, top + 7);
  }

  function figure(value, unit) {
    if (value === null || value === undefined) return "–";
    if (unit === "ratio") return (100 * value).toFixed(value < 0.1 ? 1 : 0) + " %";
    if (unit === "W") return value.toFixed(0) + " W";
    for (const [size, name] of [[1e9, "GB/s"], [1e6, "MB/s"], [1e3, "kB/s"]]) if (value >= size) return (value / size).toFixed(value >= 100 * size ? 0 : 1) + " " + name;
    return value.toFixed(0) + " B/s";
  }

  const topOf = (lane) => lane.unit === "ratio" ? 1 : Math.max(...lane.most.map((value) => value ?? 0)) || 1;

  function signal(lane, top, room, ink) {
    const most = topOf(lane);
    label(lane.title, figure(most, lane.unit), top, LANE, room, ink);
    pen.save();
    pen.beginPath();
    pen.rect(room.left, top - 1, room.width, LANE + 2);
    pen.clip();
    pen.fillStyle = ink.line;
    pen.fillRect(room.left, top + LANE - 0.5, room.width, 1);
    const y = (value) => top + LANE - (Math.min(value, most) / most) * (LANE - 2);
    const x = (n) => across(lane.start + n * lane.step, room);
    pen.fillStyle = pen.strokeStyle = ink.mark;
    pen.globalAlpha = 0.22;
    stretches(lane.mean, (from, until) => {
      pen.beginPath();
      for (let n = from; n < until; n++) { pen.lineTo(x(n), y(lane.most[n])); pen.lineTo(x(n + 1), y(lane.most[n])); }
      for (let n = until - 1; n >= from; n--) { pen.lineTo(x(n + 1), y(lane.least[n])); pen.lineTo(x(n), y(lane.least[n])); }
      pen.fill();
    });
    pen.globalAlpha = 1;
    pen.lineWidth = 1.4;
    stretches(lane.mean, (from, until) => {
      pen.beginPath();
      for (let n = from; n < until; n++) { pen.lineTo(x(n), y(lane.mean[n])); pen.lineTo(x(n + 1), y(lane.mean[n])); }
      pen.stroke();
    });
    pen.restore();
  }

  function stretches(values, each) {
    let from = -1;
    values.forEach((value, n) => {
      if (value !== null && from < 0) from = n;
      if (value === null && from >= 0) { each(from, n); from = -1; }
    });
    if (from >= 0) each(from, values.length);
  }

  // The ranks as a picture of a pixel a value, which the canvas then stretches: a zoom draws one image, not 30,000.
  function picture(of) {
    if (!of || !of.rows.length) return null;
    const made = document.createElement("canvas");
    [made.width, made.height] = [of.rows[0].length, of.rows.length];
    const own = made.getContext("2d");
    const data = own.createImageData(made.width, made.height);
    const [low, high] = [rgb(colour("card")), rgb(colour("link"))];
    of.rows.forEach((row, r) => row.forEach((value, n) => {
      if (value === null) return;
      const at = 4 * (r * made.width + n);
      for (let c = 0; c < 3; c++) data.data[at + c] = low[c] + ((high[c] - low[c]) * value) / 1000;
      data.data[at + 3] = 255;
    }));
    own.putImageData(data, 0, 0);
    return made;
  }

  function rgb(hex) {
    return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  }

  function ranks(top, room, ink) {
    const of = zoom.ranks;
    const tall = Math.max(24, of.rows.length * RANK);
    const [x, until] = [across(of.start, room), across(of.start + of.rows[0].length * of.step, room)];
    pen.save();
    pen.beginPath();
    pen.rect(room.left, top, room.width, tall + 14);
    pen.clip();
    pen.imageSmoothingEnabled = false;
    pen.drawImage(heat, x, top, until - x, tall);
    pen.restore();
    const every = Math.ceil(12 / (tall / of.rows.length));
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    pen.fillStyle = ink.quiet;
    if (!room.narrow) of.names.forEach((name, n) => { if (n % every === 0) pen.fillText(name, room.left - 10, top + ((n + 0.5) * tall) / of.rows.length); });
    pen.textAlign = "left";
    const more = of.left_out ? "; " + of.left_out + " more GPUs are not shown" : "";
    pen.fillText("each rank's " + of.title + ", from none (pale) to " + figure(of.top, of.unit) + more, room.left, top + tall + 10);
  }

  function axis(room, high, ink) {
    const { step, found } = ticks(room.width / 90);
    pen.textBaseline = "alphabetic";
    pen.textAlign = "left";
    pen.fillStyle = ink.quiet;
    let day = "";
    let free = 0; // where the text before ends
    for (const at of found) {
      const today = words("day", at);
      const time = words(step < 60 * SECOND ? "second" : "minute", at);
      const text = step >= 86400 * SECOND ? today : today === day ? time : room.narrow ? time : today + " " + time;
      day = today;
      const x = across(at, room);
      const wide = pen.measureText(text).width;
      if (x < free || x + wide >= room.left + room.width + room.right) continue;
      pen.fillText(text, x + 3, high - 6);
      free = x + wide + 6;
    }
  }

  function overlay(room, high, ink) {
    if (drag) {
      pen.fillStyle = ink.mark;
      pen.globalAlpha = 0.18;
      pen.fillRect(Math.min(drag.from, drag.to), MARKS, Math.abs(drag.to - drag.from), high - AXIS - MARKS);
      pen.globalAlpha = 1;
    } else if (pointer !== null && pointer >= room.left && pointer <= room.left + room.width) {
      pen.fillStyle = ink.ink;
      pen.fillRect(Math.round(pointer), MARKS, 1, high - AXIS - MARKS);
    }
  }

  // --- words --------------------------------------------------------------------------------------------------------

  function legend() {
    const holder = document.getElementById("timeline-legend");
    const seen = {};
    const keys = zoom.ribbon.bands.map((band) => {
      const key = document.createElement("span");
      const swatch = document.createElement("i");
      const place = (seen[band.klass] = (seen[band.klass] || 0) + 1);
      swatch.className = band.klass;
      swatch.style.opacity = 1 / (1 + 0.35 * (place - 1));
      key.append(swatch, band.label);
      return key;
    });
    const notes = [["checkpoint", "▼ checkpoint"], ["stall", "▬ stall: nothing worked"]].filter(([kind]) => zoom.marks.some((mark) => mark.kind === kind));
    for (const [, text] of notes) {
      const key = document.createElement("span");
      key.textContent = text;
      keys.push(key);
    }
    holder.replaceChildren(...keys);
  }

  function tell(at) {
    const place = zoom.ribbon.starts.findIndex((start) => start <= at && at < start + zoom.ribbon.step);
    const states = place < 0 ? [] : zoom.ribbon.bands.filter((band) => band.shares[place] >= 0.005).map((band) => band.label + " " + (100 * band.shares[place]).toFixed(0) + " %");
    const signals = zoom.lanes.map((lane) => {
      const n = Math.floor((at - lane.start) / lane.step);
      const [low, high] = [figure(lane.least[n], lane.unit), figure(lane.most[n], lane.unit)];
      const spread = low === high ? "" : " (" + low + " to " + high + ")";
      return lane.mean[n] === null || lane.mean[n] === undefined ? "" : lane.title + " " + figure(lane.mean[n], lane.unit) + spread;
    });
    const near = (span[1] - span[0]) / 150;
    const marked = zoom.marks.filter((mark) => mark.start - near <= at && at <= mark.end + near).map((mark) => mark.kind === "stall" ? "stall: " + mark.text : mark.text);
    return moment(at) + ": " + [states.join(", "), ...signals, ...marked].filter(Boolean).join(" · ");
  }

  function numbers() {
    const details = document.getElementById("timeline-numbers");
    const holder = details.querySelector("div");
    holder.replaceChildren();
    if (!details.open) return;
    const table = document.createElement("table");
    const head = table.createTHead().insertRow();
    const cell = (row, kind, text, n) => {
      const made = document.createElement(kind);
      made.textContent = text;
      if (n) made.className = "number";
      if (kind === "th") made.scope = "col";
      row.append(made);
    };
    cell(head, "th", "from", false);
    zoom.lanes.forEach((lane) => cell(head, "th", lane.title, true));
    const body = table.createTBody();
    const first = zoom.lanes[0];
    for (let n = 0; first && n < Math.min(ROWS_SHOWN, first.mean.length); n++) {
      const at = first.start + n * first.step;
      const row = body.insertRow();
      cell(row, "td", moment(at), false);
      for (const lane of zoom.lanes) cell(row, "td", figure(lane.mean[Math.floor((at - lane.start) / lane.step)], lane.unit), true);
    }
    holder.append(table);
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
  const timeAt = (x, room) => span[0] + ((x - room.left) / room.width) * (span[1] - span[0]);
  const inside = (event) => event.clientX - canvas.getBoundingClientRect().left;

  section.querySelectorAll("[data-zoom]").forEach((button) => button.addEventListener("click", () => act(button.dataset.zoom)));
  canvas.addEventListener("keydown", (event) => {
    if (!(event.key in KEYS) || event.ctrlKey || event.metaKey || !zoom) return;
    event.preventDefault();
    act(KEYS[event.key]);
    said.textContent = "From " + moment(span[0]) + " until " + moment(span[1]) + ". In the middle, " + tell((span[0] + span[1]) / 2);
  });
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    drag = { from: inside(event), to: inside(event) };
  });
  canvas.addEventListener("pointermove", (event) => {
    pointer = inside(event);
    if (drag) drag.to = pointer;
    if (zoom) said.textContent = tell(timeAt(pointer, plot()));
    draw();
  });
  canvas.addEventListener("pointerup", () => {
    if (!drag) return;
    const [from, to] = [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)];
    const room = plot();
    drag = null;
    if (to - from > MERE_CLICK) move([timeAt(from, room), timeAt(to, room)]);
    else draw();
  });
  canvas.addEventListener("pointercancel", () => { drag = null; });
  canvas.addEventListener("pointerleave", () => { pointer = null; draw(); });
  canvas.addEventListener("dblclick", () => act("out"));
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return; // a plain wheel scrolls the page
    event.preventDefault();
    const at = timeAt(inside(event), plot());
    const by = (event.deltaY || event.deltaX) > 0 ? 1.25 : 0.8;
    move([at - (at - span[0]) * by, at + (span[1] - at) * by]);
  }, { passive: false });
  ranked.addEventListener("change", () => move(span));
  document.getElementById("timeline-numbers").addEventListener("toggle", () => { if (zoom) numbers(); });
  new ResizeObserver(() => { if (zoom) draw(); }).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (zoom) show(zoom); });
  addEventListener("popstate", () => { span = addressed(); move(span); });

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

  canvas.style.height = height() + "px";
  remember();
  ask().catch((error) => { said.textContent = "The timeline could not be read: " + error.message + "."; });
})();
