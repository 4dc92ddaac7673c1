// Drawings of their own: parallel coordinates, bars, predicted against measured, attempts. All are SVG.
import {logTicks, look, saveButtons, ticksOf} from "./charts.js";
import {csvField, download, fileName, h, short, svg, time} from "./dom.js";

const words = (x, y, text, attributes = {}) => svg("text", {x, y, ...attributes}, document.createTextNode(text));

/** A drawing as a file: what the style sheet says stands in it. */
function pictureFile(title, picture) {
  const copy = picture.cloneNode(true);
  const originals = [picture, ...picture.querySelectorAll("*")], copies = [copy, ...copy.querySelectorAll("*")];
  originals.forEach((original, i) => {
    const style = getComputedStyle(original);
    for (const name of ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size", "font-family"])
      copies[i].setAttribute(name, style.getPropertyValue(name));
    copies[i].removeAttribute("class");
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  const {width, height} = picture.viewBox.baseVal;
  copy.prepend(svg("rect", {width, height, fill: getComputedStyle(document.body).backgroundColor}));
  return [fileName(title, ".svg"), "image/svg+xml", new XMLSerializer().serializeToString(copy)];
}

const csvFile = (title, rows) => download(fileName(title, ".csv"), "text/csv", rows.map((row) => row.map(csvField).join(",")).join("\n") + "\n");

/** An axis of texts or of numbers, the latter by their logarithm where they span more than a factor of 50. */
function axisOf(name, values, top, bottom) {
  const present = values.filter((value) => value !== undefined && value !== null && value !== "");
  const numbers = present.map(Number);
  if (present.length > 0 && numbers.every((value) => Number.isFinite(value))) {
    const low = Math.min(...numbers), high = Math.max(...numbers), logarithmic = low > 0 && high / low > 50;
    const scale = logarithmic ? Math.log10 : (value) => value;
    const place = (value) => (high === low ? (top + bottom) / 2 : bottom - (bottom - top) * (scale(Number(value)) - scale(low)) / (scale(high) - scale(low)));
    const distinct = [...new Set(numbers)];
    const ticks = distinct.length <= 6 ? distinct : logarithmic
      ? logTicks(low, high) : ticksOf(low, high);
    const at = (y) => { const value = scale(low) + (bottom - y) / (bottom - top) * (scale(high) - scale(low)); return logarithmic ? 10 ** value : value; };
    return {name, place, between: (y1, y2) => (high === low ? (y1 <= place(low) && place(low) <= y2 ? [low, high] : null) : [at(y2), at(y1)]), ticks: (ticks.length > 1 ? ticks : [low, high]).map((tick) => [place(tick), short(tick)])};
  }
  const texts = [...new Set(present.map(String))].sort();
  const place = (value) => (texts.length < 2 ? (top + bottom) / 2 : bottom - (bottom - top) * texts.indexOf(String(value)) / (texts.length - 1));
  const between = (y1, y2) => { const found = texts.filter((text) => place(text) >= y1 && place(text) <= y2); return found.length > 0 ? [found[0], found[found.length - 1]] : null; };
  return {name, place, between, ticks: texts.slice(0, 12).map((text) => [place(text), text.length > 12 ? text.slice(0, 11) + "…" : text])};
}

/**
 * Trials {trial, objective, parameters} over their parameters and the objective. Dragging along an axis keeps those that
 * cross there; a click on the axis lets go. `brushes` are [[name, low, high]] to begin with; `onBrush` gets the kept
 * trials, or null, and the brushes. Axes also take arrow keys.
 */
export function parallel(title, points, metric, goal, given, onBrush) {
  const names = [...new Set(points.flatMap((point) => Object.keys(point.parameters)))].sort();
  const columns = [...names, metric], values = (point) => [...names.map((name) => point.parameters[name]), point.objective];
  const width = Math.max(360, 150 * columns.length, document.getElementById("main").clientWidth - 60), top = 44, bottom = 268;
  const axes = columns.map((name, i) => axisOf(name, points.map((point) => values(point)[i]), top, bottom));
  const at = (i) => 60 + (width - 150) * i / Math.max(1, columns.length - 1);
  const sorted = [...points].sort((a, b) => (goal === "maximize" ? a.objective - b.objective : b.objective - a.objective));
  const lines = sorted.map((point, place) => {
    const drawn = values(point).map((value, i) => (value === undefined || value === null ? null : [at(i), axes[i].place(value)]));
    const line = svg("polyline", {class: place >= sorted.length - 3 ? "best" : "one", points: drawn.filter(Boolean).map((each) => each.map((number) => number.toFixed(1)).join(",")).join(" ")},
      svg("title", {}, document.createTextNode(`trial ${point.trial}: ${short(point.objective)}`)));
    return {point, line, drawn};
  });
  const picture = svg("svg", {class: "parallel", viewBox: `0 0 ${width} 285`, width, height: 285, role: "group", "aria-label": title}, svg("g", {}, lines.map(({line}) => line)));
  // Of texts that are gone and numbers beyond the axis nothing is left.
  const brushes = columns.map((name, i) => {
    const found = given.find((brush) => brush[0] === name);
    if (!found) return null;
    const [y1, y2] = [axes[i].place(found[2]), axes[i].place(found[1])].map((y) => Math.max(top - 4, Math.min(bottom + 4, y)));
    return Number.isFinite(y1) && Number.isFinite(y2) && y1 <= y2 ? [y1 - 1e-6, y2 + 1e-6] : null;
  }), boxes = columns.map((name, i) => svg("rect", {class: "brush", x: at(i) - 9, width: 18, y: 0, height: 0}));
  const text = h("p", {class: "quiet", role: "status"}, "Drag along an axis to choose trials.");
  const apply = () => {
    const any = brushes.some(Boolean);
    const kept = lines.filter(({drawn}) => brushes.every((brush, i) => !brush || (drawn[i] && drawn[i][1] >= brush[0] && drawn[i][1] <= brush[1])));
    const chosen = new Set(kept);
    for (const each of lines) each.line.classList.toggle("off", any && !chosen.has(each));
    brushes.forEach((brush, i) => { boxes[i].setAttribute("y", brush ? brush[0] : 0); boxes[i].setAttribute("height", brush ? Math.max(2, brush[1] - brush[0]) : 0); });
    const best = kept[kept.length - 1]?.point;
    text.replaceChildren(!any ? "Drag along an axis to choose trials." : `${kept.length} of ${points.length} trials chosen`,
      any && best ? h("span", {}, ", the best: ", h("a", {href: `/job/${best.id}`}, `trial ${best.trial}`), ` (${short(best.objective)})`) : "");
    return any ? kept.map(({point}) => point) : null;
  };
  const tell = () => onBrush(apply(), brushes.flatMap((brush, i) => { const found = brush && axes[i].between(...brush); return found ? [[columns[i], ...found]] : []; }));
  let figure = null;
  columns.forEach((name, i) => {
    const handle = svg("rect", {class: "handle", x: at(i) - 20, y: top - 8, width: 40, height: bottom - top + 16, tabindex: 0, role: "slider",
      "aria-label": `choose by ${name}`, "aria-valuenow": 0, "aria-valuetext": "all"});
    const y = (event) => Math.max(top - 4, Math.min(bottom + 4, (event.clientY - picture.getBoundingClientRect().top) * 285 / picture.getBoundingClientRect().height));
    let from = null;
    handle.addEventListener("pointerdown", (event) => { from = y(event); figure.busy = true; handle.setPointerCapture(event.pointerId); });
    handle.addEventListener("pointermove", (event) => {
      if (from === null) return;
      brushes[i] = [Math.min(from, y(event)), Math.max(from, y(event))];
      apply();
    });
    handle.addEventListener("pointerup", (event) => {
      if (from !== null && Math.abs(y(event) - from) < 3) brushes[i] = null;
      from = null;
      figure.busy = false;
      tell();  // only now: what is above may change its height
    });
    handle.addEventListener("keydown", (event) => {
      const move = {ArrowUp: -12, ArrowDown: 12}[event.key];
      if (event.key === "Escape") brushes[i] = null;
      else if (move) brushes[i] = brushes[i] ? brushes[i].map((edge) => Math.max(top - 4, Math.min(bottom + 4, edge + move))) : [top - 4, (top + bottom) / 2];
      else return;
      event.preventDefault();
      handle.setAttribute("aria-valuetext", brushes[i] ? "a part" : "all");
      tell();
    });
    const label = name.includes(".") && name !== metric ? name.slice(name.indexOf(".") + 1) : name;
    picture.append(svg("line", {class: "axis", x1: at(i), x2: at(i), y1: top, y2: bottom}),
      words(at(i), 24 - 12 * (i % 2), label, {class: "name", "text-anchor": i === columns.length - 1 ? "end" : i === 0 ? "start" : "middle"}), boxes[i],
      ...axes[i].ticks.map(([place, tick]) => words(at(i) + 6, place + 4, tick, {class: "tick"})), handle);
  });
  figure = h("figure", {class: "wide", role: "group", "aria-label": title}, h("figcaption", {}, h("span", {}, title), saveButtons(
    () => csvFile(title, [["trial", ...columns], ...points.map((point) => [point.trial, ...values(point)])]), () => pictureFile(title, picture))),
    h("div", {class: "scroll bare", tabindex: 0, role: "region", "aria-label": `drawing of ${title}`}, picture), text);
  if (brushes.some(Boolean)) requestAnimationFrame(tell);
  return figure;
}

/** Bars {parameter, share, rank_correlation, trials}. */
export function importanceBars(title, rows) {
  const width = Math.max(260, Math.min(460, document.getElementById("main").clientWidth - 50)), height = 26 * rows.length + 10, left = width < 460 ? 150 : 215;
  const most = left === 150 ? 20 : 30, long = width - left - 85;
  const picture = svg("svg", {class: "bars", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title}, rows.map((row, i) => svg("g", {}, words(0, 26 * i + 17, row.parameter.length > most ? "…" + row.parameter.slice(1 - most) : row.parameter, {class: "name"}),
    svg("rect", {class: "bar", x: left, y: 26 * i + 5, width: Math.max(1, long * row.share), height: 16}, svg("title", {}, document.createTextNode(`${row.parameter}: ${row.share}`))),
    words(left + 7 + long * row.share, 26 * i + 17, `${Math.round(100 * row.share)} %${row.rank_correlation === null ? "" : row.rank_correlation > 0.05 ? " ↗" : row.rank_correlation < -0.05 ? " ↘" : ""}`, {class: "value"}))));
  return h("figure", {role: "group", "aria-label": title}, h("figcaption", {}, h("span", {}, title), saveButtons(
    () => csvFile(title, [["parameter", "share", "rank_correlation", "trials"], ...rows.map((row) => [row.parameter, row.share, row.rank_correlation, row.trials])]),
    () => pictureFile(title, picture))), picture,
    h("p", {class: "quiet"}, "Share of the variance of ranks that each parameter explains by itself (ε²); arrows tell where the objective goes as it grows."));
}

/** Ranks or times of candidates, [rank, score, predicted, measured] of several runs {name, points}: predicted against measured. */
export function scatter(title, runs) {
  const predicts = runs.every((run) => run.points.every((point) => point[2] !== null)), from = predicts ? 2 : 1;
  const points = runs.flatMap((run) => run.points).filter((point) => point[3] !== null && point[from] !== null);
  const picture = svg("svg", {class: "scatter", viewBox: "0 0 460 330", role: "img", "aria-label": title});
  const range = (i) => [Math.min(...points.map((point) => point[i])), Math.max(...points.map((point) => point[i]))];
  if (points.length > 0) {
    const whole = predicts ? [Math.min(range(2)[0], range(3)[0]), Math.max(range(2)[1], range(3)[1])] : null;
    const axis = ([low, high], near, far) => {
      const logarithmic = low > 0 && high / low > 20, scale = logarithmic ? Math.log10 : (value) => value;
      return {place: (value) => near + (far - near) * (scale(value) - scale(low)) / (scale(high) - scale(low) || 1),
        ticks: logarithmic ? logTicks(low, high) : ticksOf(low, high, 4)};
    };
    const x = axis(whole ?? range(3), 66, 448), y = axis(whole ?? range(from), 282, 12);
    for (const tick of y.ticks) picture.append(svg("line", {class: "grid", x1: 66, x2: 448, y1: y.place(tick), y2: y.place(tick)}), words(60, y.place(tick) + 4, short(tick), {class: "tick", "text-anchor": "end"}));
    for (const tick of x.ticks) picture.append(words(x.place(tick), 300, short(tick), {class: "tick", "text-anchor": "middle"}));
    if (whole) picture.append(svg("line", {class: "axis", x1: 66, x2: 448, y1: 282, y2: 12}));
    runs.forEach((run, i) => {
      for (const point of run.points) {
        if (point[3] === null || point[from] === null) continue;
        picture.append(svg("circle", {cx: x.place(point[3]).toFixed(1), cy: y.place(point[from]).toFixed(1), r: 2.6, fill: look(i).color, opacity: 0.7}));
      }
    });
    picture.append(words(257, 322, "measured", {class: "name", "text-anchor": "middle"}), words(14, 147, predicts ? "predicted" : "score", {class: "name", "text-anchor": "middle", transform: "rotate(-90 14 147)"}));
  }
  return h("figure", {role: "group", "aria-label": title}, h("figcaption", {}, h("span", {}, title), saveButtons(
    () => csvFile(title, [["run", "rank", "score", "predicted", "measured"], ...runs.flatMap((run) => run.points.map((point) => [run.name, ...point]))]),
    () => pictureFile(title, picture))), picture, runs.length > 1 ? h("ul", {class: "legend"}, runs.map((run, i) => h("li", {}, svg("svg", {width: 12, height: 10, "aria-hidden": "true"}, svg("circle", {cx: 5, cy: 6, r: 4, fill: look(i).color})), run.name))) : null);
}

const ENDS = {finish: "ended", error: "failed", preempt: "given back by its agent", lost: "its agent was no longer heard of", unreadable: "its record is damaged"};

/** The attempts that events tell of: [{number, agent, from, to, end, then}]; `end` null: it runs. */
export function attemptsOf(events) {
  const attempts = [];
  for (const event of events) {
    if (event.event === "claim" || event.event === "regain") attempts.push({number: attempts.length + 1, agent: event.agent, from: event.time_ms, to: null, end: null, then: null});
    else if (event.from === "active" && event.to !== "active" && attempts.length > 0 && attempts[attempts.length - 1].to === null)
      Object.assign(attempts[attempts.length - 1], {to: event.time_ms, end: (ENDS[event.event] ?? event.event) + (event.why ? `: ${event.why}` : ""), then: event.to});
  }
  return attempts;
}

/** Attempts as bars over time. */
export function timeline(title, attempts, now) {
  const first = attempts[0].from, last = Math.max(first + 1000, ...attempts.map((each) => each.to ?? now));
  const place = (when) => 4 + 952 * (when - first) / (last - first), height = 24 * attempts.length + 26;
  const picture = svg("svg", {class: "timeline", viewBox: `0 0 960 ${height}`, role: "img", "aria-label": title}, attempts.map((each, i) => svg("rect", {
    class: "state " + (each.then ?? "active"), x: place(each.from), y: 24 * i + 4, height: 16, width: Math.max(2, place(each.to ?? now) - place(each.from))},
    svg("title", {}, document.createTextNode(`${time(each.from)} to ${each.to ? time(each.to) : "now"}: ${each.end ?? "runs"}`)))),
    words(4, height - 6, time(first), {class: "tick"}), words(956, height - 6, time(last), {class: "tick", "text-anchor": "end"}));
  return h("figure", {class: "wide", role: "group", "aria-label": title}, h("figcaption", {}, h("span", {}, title), saveButtons(
    () => csvFile(title, [["from", "to", "agent", "end", "then"], ...attempts.map((each) => [time(each.from), each.to ? time(each.to) : "", each.agent, each.end ?? "", each.then ?? ""])]),
    () => pictureFile(title, picture))), picture);
}
