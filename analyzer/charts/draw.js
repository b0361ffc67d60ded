// Draws the figures that a page or a document carries, in the colours that its palette has now: they are made in Python
// (analyzer/charts), in those of light paper, which is what is printed.
"use strict";

const CONFIG = { displaylogo: false, responsive: true, modeBarButtons: [["toImage", "resetScale2d"]] };
const WIDE = 600; // from here on the buttons stand beside the plot, so that they hide no legend
const LEGEND = 44; // what it takes more on a phone, where its entries stand in two columns
const PAPER = 680; // what a printed page has, in CSS pixels

function drawChart(holder, onPaper = false) {
  const figure = JSON.parse(document.getElementById(holder.dataset.chart).textContent);
  const { data, layout, config } = figure;
  if (!onPaper) ink(figure, layout.meta.colours, getComputedStyle(document.documentElement));
  const wide = holder.clientWidth > WIDE;
  if (wide && !onPaper) layout.margin = { ...layout.margin, r: 40 };
  if (!wide) layout.height += LEGEND;
  if (onPaper) layout.width = Math.min(PAPER, holder.clientWidth);
  Plotly.react(holder, data, layout, { ...CONFIG, ...config, displayModeBar: wide && !onPaper });
  named(holder);
}

// Puts the palette's colours of now in the place of those of light paper.
function ink(part, names, style) {
  const now = (colour) => (colour in names ? style.getPropertyValue("--" + names[colour]).trim() : colour);
  for (const [key, value] of Object.entries(part)) {
    if (key.endsWith("color")) part[key] = now(value);
    else if (key === "colorscale") part[key] = value.map(([at, colour]) => [at, now(colour)]);
    else if (typeof (Array.isArray(value) ? value[0] : value) === "object" && value) ink(value, names, style);
  }
}

// The holder has the picture's name; what plotly puts into it and beside it to measure by has none, and its buttons no word.
function named(holder) {
  document.querySelectorAll("#js-plotly-tester, .chart svg").forEach((each) => each.setAttribute("aria-hidden", "true"));
  holder.querySelectorAll(".modebar-btn").forEach((each) => {
    if (each.textContent.trim()) return;
    const word = document.createElement("span");
    word.className = "unseen";
    word.textContent = each.dataset.title;
    each.append(word);
  });
}

function redrawCharts(onPaper = false) {
  document.querySelectorAll(".js-plotly-plot").forEach((holder) => drawChart(holder, onPaper));
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redrawCharts());
addEventListener("beforeprint", () => redrawCharts(true));
addEventListener("afterprint", () => redrawCharts());
// A document has plotly within it and draws all at once; a page loads it once a chart comes into view (page.js).
if (window.Plotly) document.querySelectorAll("[data-chart]").forEach((holder) => drawChart(holder));
