// Curves, drawn by uPlot; what it draws is also there as text, and as CSV.
import {download, h, short, svg} from "./dom.js";

/** Colours that people of any colour sight tell apart (Okabe and Ito), on light and on dark, then the same dashed. */
const COLORS = [["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#a36a00", "#2a9ad6"], ["#56b4e9", "#e69f00", "#2fc69a", "#e39bc5", "#f0e442", "#ff8a4c"]];
const DASHES = [[], [6, 4], [2, 3]];
function look(i) {
  const colors = COLORS[matchMedia("(prefers-color-scheme: dark)").matches ? 1 : 0];
  return {color: colors[i % colors.length], dash: DASHES[Math.floor(i / colors.length) % DASHES.length]};
}

/** A figure of series {name, steps, values}; `x` is what the horizontal axis counts. */
export function chart(title, series, x = "step") {
  const box = h("div");
  const figure = h("figure", {role: "group", "aria-label": title}, h("figcaption", {}, title, " ", h("span", {class: "quiet last"}),
    h("button", {class: "plain", type: "button", title: "save these numbers", onclick: () => save(title, figure.series)}, "CSV")), box);
  if (series.length > 1) {
    figure.append(h("ul", {class: "legend"}, series.map((each, i) => {
      const {color, dash} = look(i);
      return h("li", {}, svg("svg", {width: 22, height: 8, "aria-hidden": "true"},
        svg("line", {x1: 0, x2: 22, y1: 4, y2: 4, stroke: color, "stroke-width": 2, "stroke-dasharray": dash.join(" ")})), each.name);
    })));
  }
  figure.box = box;
  figure.x = x;
  redraw(figure, series);
  return figure;
}

/** All steps in rows, each series in a column; null where it has no value. */
function aligned(series) {
  const steps = [...new Set(series.flatMap((each) => each.steps))].sort((a, b) => a - b);
  const at = new Map(steps.map((step, i) => [step, i]));
  return [steps, ...series.map((each) => {
    const column = new Array(steps.length).fill(null);
    each.steps.forEach((step, i) => { column[at.get(step)] = each.values[i]; });
    return column;
  })];
}

export function redraw(figure, series) {
  figure.series = series;
  const data = aligned(series);
  figure.querySelector(".last").textContent = series.length === 1 && series[0].values.length > 0
    ? short(series[0].values[series[0].values.length - 1]) : "";
  if (figure.plot && figure.plot.series.length === series.length + 1) {
    figure.plot.setData(data);
    return;
  }
  figure.plot?.destroy();
  const style = getComputedStyle(document.documentElement);
  const axis = {stroke: style.getPropertyValue("--quiet"), grid: {stroke: style.getPropertyValue("--line"), width: 1}, ticks: {show: false}};
  const draw = () => {
    figure.plot = new uPlot({
      width: Math.max(200, figure.box.clientWidth), height: 220, scales: {x: {time: figure.x === "time"}},
      axes: [axis, {...axis, size: 64, values: (plot, ticks) => ticks.map(short)}], legend: {show: false}, cursor: {points: {size: 6}},
      series: [{}, ...series.map((each, i) => ({stroke: look(i).color, dash: look(i).dash, width: 2, spanGaps: true,
        points: {show: each.values.length < 40, size: 5}}))],
    }, data, figure.box);
  };
  // Its width is known once it is in the page.
  if (figure.isConnected) draw();
  else requestAnimationFrame(draw);
  figure.watch ??= new ResizeObserver(() => {
    if (figure.plot && figure.box.clientWidth > 0) figure.plot.setSize({width: figure.box.clientWidth, height: 220});
  });
  figure.watch.observe(figure.box);
}

function save(title, series) {
  const field = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const [steps, ...columns] = aligned(series);
  const lines = [["step", ...series.map((each) => field(each.name))].join(",")];
  steps.forEach((step, i) => lines.push([step, ...columns.map((column) => column[i] ?? "")].join(",")));
  download(title.replace(/[^\w-]+/g, "_") + ".csv", "text/csv", lines.join("\n") + "\n");
}

/** A place for one chart of each title, made when it first has something to show. */
export function chartGrid() {
  const grid = h("div", {class: "charts"});
  const figures = new Map();
  return {
    element: grid,
    show(title, series, x) {
      const shown = series.filter((each) => each.values.length > 0);
      if (shown.length === 0) return;
      const before = figures.get(title);
      if (before && before.series.length === shown.length && before.series.every((each, i) => each.name === shown[i].name)) {
        redraw(before, shown);
        return;
      }
      const figure = chart(title, shown, x);
      if (before) before.replaceWith(figure);
      else grid.append(figure);
      figures.set(title, figure);
    },
  };
}
