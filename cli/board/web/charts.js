// Curves, drawn by uPlot; what it draws is also there as text, as CSV and as SVG.
import {csvField, download, fileName, h, isDark, refocus, short, svg} from "./dom.js";

/** Colours that people of any colour sight tell apart (Okabe and Ito), on light and on dark, then the same dashed. */
const COLORS = [["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#a36a00", "#2a9ad6"], ["#56b4e9", "#e69f00", "#2fc69a", "#e39bc5", "#f0e442", "#ff8a4c"]];
const DASHES = [[], [6, 4], [2, 3]];
export function look(i) {
  const colors = COLORS[isDark() ? 1 : 0];
  return {color: colors[i % colors.length], dash: DASHES[Math.floor(i / colors.length) % DASHES.length]};
}
const HEIGHT = 220, LEGEND = 12;
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Curves of one of which there are many: the first ones stand out, the others are thin. */
const lookOf = (series, i) => (series.length <= LEGEND ? {...look(i), width: 2} : i < 3 ? {...look(i), width: 2.5} : {color: color("--faint"), dash: [], width: 1});

/** A figure of series {name, steps, values}; `x` is what the horizontal axis counts, `marks` are steps to show. */
export function chart(title, series, {x = "step", marks = [], stepped = false, wide = false} = {}) {
  const box = h("div");
  const figure = h("figure", {role: "group", "aria-label": title, class: wide ? "wide" : null}, h("figcaption", {}, h("span", {}, title), h("span", {class: "quiet last"}),
    saveButtons(() => save(title, figure.series, x), () => curvesFile(title, figure.series, x, figure.marks))), box);
  const names = series.length <= LEGEND ? series : series.slice(0, 3);
  if (series.length > 1) {
    figure.append(h("ul", {class: "legend"}, names.map((each, i) => {
      const {color: stroke, dash} = lookOf(series, i);
      return h("li", {}, svg("svg", {width: 22, height: 8, "aria-hidden": "true"},
        svg("line", {x1: 0, x2: 22, y1: 4, y2: 4, stroke, "stroke-width": 2, "stroke-dasharray": dash.join(" ")})), each.name);
    }), series.length > LEGEND ? h("li", {class: "quiet"}, `and ${series.length - 3} others`) : null));
  }
  Object.assign(figure, {box, x, stepped, height: wide ? 300 : HEIGHT});
  redraw(figure, series, marks);
  return figure;
}

export function saveButtons(csv, image) {
  return h("span", {class: "saves"}, h("button", {class: "plain", type: "button", title: "save these numbers", onclick: csv}, "CSV"),
    h("button", {class: "plain", type: "button", title: "save this picture", onclick: () => download(...image())}, "SVG"));
}

/** Hours and minutes of seconds, with the day or the seconds where ticks are that far apart or that close. */
function clock(seconds, step) {
  const text = new Date(seconds * 1000).toLocaleString("sv-SE");
  return step >= 86400 ? text.slice(5, 10) : step >= 21600 ? text.slice(5, 16) : text.slice(11, step < 60 ? 19 : 16);
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

export function redraw(figure, series, marks = []) {
  const data = aligned(series);
  const same = figure.plot && figure.series.length === series.length;
  Object.assign(figure, {series, marks});
  figure.querySelector(".last").textContent = series.length === 1 && series[0].values.length > 0
    ? short(series[0].values[series[0].values.length - 1]) : "";
  if (same) {
    figure.plot.setData(data);
    return;
  }
  figure.plot?.destroy();
  const axis = {stroke: color("--quiet"), grid: {stroke: color("--line"), width: 1}, ticks: {show: false}};
  const across = {...axis, size: 30, space: 80, values: (plot, ticks, i, space, step) => ticks.map(figure.x === "time" ? (tick) => clock(tick, step) : short)};
  const drawMarks = (plot) => {
    const {ctx, bbox} = plot;
    ctx.save();
    ctx.strokeStyle = color("--waits");
    ctx.setLineDash([4, 4]);
    for (const mark of figure.marks) {
      const left = plot.valToPos(mark, "x", true);
      if (left < bbox.left || left > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(left, bbox.top);
      ctx.lineTo(left, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  };
  const draw = () => {
    figure.plot = new uPlot({
      width: Math.max(200, figure.box.clientWidth), height: figure.height, scales: {x: {time: figure.x === "time", range: (plot, low, high) => { const room = 0.02 * (high - low) || 1; return [low - room, high + room]; }}},
      axes: [across, {...axis, size: 64, values: (plot, ticks) => ticks.map(short)}], legend: {show: false}, cursor: {points: {size: 6}},
      hooks: {draw: [drawMarks]},
      // The ones that stand out are drawn last.
      series: [{}, ...series.map((each, i) => {
        const {color: stroke, dash, width} = lookOf(series, i);
        return {stroke, dash, width, spanGaps: true, paths: figure.stepped ? uPlot.paths.stepped({align: 1}) : null, points: {show: series.length <= LEGEND && each.values.length < 40, size: 5}};
      })],
    }, data, figure.box);
  };
  // Its width is known once it is in the page.
  if (figure.isConnected) draw();
  else requestAnimationFrame(draw);
  figure.watch ??= new ResizeObserver(() => {
    if (figure.plot && figure.box.clientWidth > 0) figure.plot.setSize({width: figure.box.clientWidth, height: figure.height});
  });
  figure.watch.observe(figure.box);
}

function save(title, series, x) {
  const [steps, ...columns] = aligned(series);
  const lines = [[x, ...series.map((each) => csvField(each.name))].join(",")];
  steps.forEach((step, i) => lines.push([step, ...columns.map((column) => column[i] ?? "")].join(",")));
  download(fileName(title, ".csv"), "text/csv", lines.join("\n") + "\n");
}

/** Round numbers between two values, about `count`. */
export function ticksOf(low, high, count = 5) {
  const span = high - low || Math.abs(high) || 1, size = 10 ** Math.floor(Math.log10(span / count));
  const step = [1, 2, 5, 10].map((factor) => factor * size).find((each) => span / each <= count) ?? 10 * size;
  const ticks = [];
  for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9; ++i) ticks.push(i * step);
  return ticks;
}

/** 1, 2 and 5 times powers of ten, or the powers alone where these are many. */
export function logTicks(low, high) {
  const powers = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); ++power) powers.push(10 ** power);
  const ticks = (powers.length > 4 ? powers : powers.flatMap((power) => [power, 2 * power, 5 * power])).filter((tick) => tick >= low && tick <= high);
  return ticks.map((tick) => Number(tick.toPrecision(3)));
}

/** The curves as a file of its own: [name, type, text]. */
function curvesFile(title, series, x, marks) {
  const points = series.flatMap((each) => each.steps.map((step, i) => [step, each.values[i]])).filter(([, value]) => value !== null);
  const range = (i) => points.reduce(([low, high], point) => [Math.min(low, point[i]), Math.max(high, point[i])], [Infinity, -Infinity]);
  const [left, right] = range(0), [low, high] = range(1);
  const place = (step, value) => [70 + 540 * (step - left) / (right - left || 1), 340 - 290 * (value - low) / (high - low || 1)];
  const text = (x1, y, anchor, content) => svg("text", {x: x1, y, "text-anchor": anchor, "font-size": 12, "font-family": "sans-serif", fill: "#222222"}, document.createTextNode(content));
  const picture = svg("svg", {xmlns: "http://www.w3.org/2000/svg", viewBox: "0 0 800 390", width: 800, height: 390}, svg("rect", {width: 800, height: 390, fill: "#ffffff"}),
    text(70, 25, "start", title), text(340, 383, "middle", x === "time" ? "time (UTC)" : x),
    ...ticksOf(low, high).flatMap((tick) => [svg("line", {x1: 70, x2: 610, y1: place(0, tick)[1], y2: place(0, tick)[1], stroke: "#dddddd"}), text(64, place(0, tick)[1] + 4, "end", short(tick))]),
    ...ticksOf(left, right).map((tick) => text(place(tick, 0)[0], 360, "middle", x === "time" ? new Date(tick * 1000).toISOString().slice(11, 19) : short(tick))),
    ...marks.filter((mark) => mark >= left && mark <= right).map((mark) => svg("line", {x1: place(mark, 0)[0], x2: place(mark, 0)[0], y1: 50, y2: 340, stroke: "#6e5200", "stroke-dasharray": "4 4"})));
  series.map((each, i) => [each, i]).reverse().forEach(([each, i]) => {
    const thin = series.length > LEGEND && i >= 3;
    const stroke = thin ? "#bbbbbb" : COLORS[0][i % COLORS[0].length], dash = thin ? [] : DASHES[Math.floor(i / COLORS[0].length) % DASHES.length];
    const drawn = each.steps.map((step, k) => [step, each.values[k]]).filter(([, value]) => value !== null);
    picture.append(svg("polyline", {points: drawn.map(([step, value]) => place(step, value).map((each2) => each2.toFixed(1)).join(",")).join(" "),
      fill: "none", stroke, "stroke-width": thin ? 0.7 : 2, "stroke-dasharray": dash.join(" ") || null}));
    if (i < LEGEND && !thin && series.length > 1) {
      picture.append(svg("line", {x1: 622, x2: 642, y1: 58 + 18 * i, y2: 58 + 18 * i, stroke, "stroke-width": 2, "stroke-dasharray": dash.join(" ") || null}),
        text(648, 62 + 18 * i, "start", each.name.slice(0, 22)));
    }
  });
  return [fileName(title, ".svg"), "image/svg+xml", new XMLSerializer().serializeToString(picture)];
}

/** A place for one chart of each title, made when it first has something to show. */
export function chartGrid() {
  const grid = h("div", {class: "charts"}), single = h("ul", {class: "tiles"}), place = h("div", {}, single, grid);
  const figures = new Map(), singles = new Map();
  /** What was measured once is no curve. */
  const showSingle = (title, series, x) => {
    singles.set(title, h("li", {"data-name": title}, h("span", {}, title), series.map((each) => h("b", {title: each.values[0], "data-value": each.values[0]}, short(each.values[0]), " ",
      h("small", {class: "quiet"}, (series.length > 1 ? `${each.name}, ` : "") + `${x} ${short(each.steps[0])}`)))));
    single.replaceChildren(...singles.values());
  };
  const put = (title, figure) => {
    const before = figures.get(title);
    const focused = before?.contains(document.activeElement) ? document.activeElement : null;
    const scrolled = before?.querySelector(".scroll")?.scrollLeft;
    if (before) before.replaceWith(figure);
    else grid.append(figure);
    figures.set(title, figure);
    if (scrolled) figure.querySelector(".scroll").scrollLeft = scrolled;
    if (focused) refocus(figure, focused);
  };
  return {
    element: place,
    put,
    of: (title) => figures.get(title),
    show(title, series, options = {}) {
      const key = options.key ?? title;
      const shown = series.filter((each) => each.values.length > 0);
      if (shown.length === 0) return;
      if (!options.marks && options.x !== "time" && shown.every((each) => each.values.length === 1)) return showSingle(title, shown, options.x ?? "step");
      if (singles.delete(title)) single.replaceChildren(...singles.values());
      const before = figures.get(key);
      if (before && before.getAttribute("aria-label") === title && before.series.length === shown.length && before.series.every((each, i) => each.name === shown[i].name)) {
        redraw(before, shown, options.marks);
        return;
      }
      put(key, chart(title, shown, options));
    },
    /** Drops the figures of other titles. */
    keep(titles) {
      for (const title of [...singles.keys()]) if (!titles.includes(title)) singles.delete(title);
      single.replaceChildren(...singles.values());
      for (const [title, figure] of figures) {
        if (titles.includes(title)) continue;
        figure.remove();
        figures.delete(title);
      }
    },
  };
}
