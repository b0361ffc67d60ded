// Draw the charts of a page. Each chart is a JSON block made by the server; colours come from the page's own styles.
"use strict";

const PATTERNS = { useful: "", avoidable: "/", overhead: ".", spare: "", unknown: "x" };
const CONFIG = { displaylogo: false, responsive: true, modeBarButtons: [["toImage", "resetScale2d"]] };

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}

function draw(holder) {
  const chart = JSON.parse(document.getElementById(holder.dataset.chart).textContent);
  const bar = holder.clientWidth > 600; // beside the plot, so that it hides no legend
  const seen = {};
  const traces = chart.traces.map((trace) => {
    const place = (seen[trace.class] = (seen[trace.class] || 0) + 1);
    return {
      type: "bar", name: trace.name, x: chart.x, y: trace.y, customdata: chart.labels,
      hovertemplate: "%{customdata}<br>" + trace.name.replace(/</g, "&lt;") + " %{y:.1f} " + chart.unit + "<extra></extra>",
      marker: { color: colour(trace.class), opacity: 1 / (1 + 0.35 * (place - 1)), line: { width: 0 },
        pattern: { shape: PATTERNS[trace.class], fillmode: "overlay", size: 7, solidity: 0.15, fgcolor: colour("paper") } },
    };
  });
  const layout = {
    barmode: "stack", bargap: 0.06, height: 320, margin: { l: 48, r: bar ? 40 : 12, t: 8, b: 36 },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: colour("ink"), size: 12 },
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", traceorder: "normal" }, modebar: { orientation: "v", bgcolor: "rgba(0,0,0,0)", color: colour("quiet"), activecolor: colour("ink") }, hoverlabel: { bgcolor: colour("card"), font: { color: colour("ink") } },
    shapes: chart.mark === null || chart.mark === undefined ? [] : [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: chart.mark, y1: chart.mark, line: { color: colour("ink"), width: 1.5, dash: "dash" } }],
    xaxis: { type: "date", gridcolor: colour("line") }, yaxis: { title: { text: chart.unit }, gridcolor: colour("line"), rangemode: "tozero" },
  };
  Plotly.react(holder, traces, layout, { ...CONFIG, displayModeBar: bar });
}

function drawAll() {
  document.querySelectorAll("[data-chart]").forEach(draw);
}

drawAll();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
