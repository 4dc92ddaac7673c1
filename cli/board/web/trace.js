// What a training spent its time with, as --profile has measured it: spans of each rank's threads over time.
import {csvField, download, fileName, get, h, short, svg} from "./dom.js";
import {look, saveButtons, ticksOf} from "./charts.js";
import {damageList} from "./parts.js";
import {pictureFile} from "./plots.js";

const WIDTH = 1000, LEFT = 120, ROW = 22, SHADES = 18;

/** Milliseconds of microseconds. */
const ms = (microseconds) => short(microseconds / 1000);

/**
 * The trace of a run, in the window {from, to} in microseconds, "to" null for its end. Dragging, buttons and the keys of
 * the drawing choose another one, which `onWindow` gets; null: the window cannot be changed.
 */
export async function traceFigure(run, span, onWindow) {
  const query = `name=${encodeURIComponent(run)}` + (onWindow ? `&from=${Math.round(span.from)}` + (span.to === null ? "" : `&to=${Math.round(span.to)}`) : "");
  const {duration, from, to, rows, names, spans, short: left, damaged} = await get(`/api/trace?${query}`);
  if (damaged) return damageList([{damaged}]);
  const title = `Profile of ${run}`, height = ROW * rows.length + 34, width = to - from || 1;
  const x = (when) => LEFT + (WIDTH - LEFT - 8) * (Math.max(from, Math.min(to, when)) - from) / width;
  const picture = svg("svg", {class: "trace", viewBox: `0 0 ${WIDTH} ${height}`, tabindex: onWindow ? 0 : null, role: "img",
    "aria-label": `${title}: ${ms(from)} to ${ms(to)} of ${ms(duration)} ms`});
  for (const tick of ticksOf(from / 1000, to / 1000, 8)) {
    const at = x(tick * 1000);
    picture.append(svg("line", {class: "grid", x1: at, x2: at, y1: 0, y2: height - 30}), svg("text", {class: "tick", x: at, y: height - 14, "text-anchor": "middle"}, document.createTextNode(short(tick))));
  }
  picture.append(svg("text", {class: "tick", x: WIDTH - 4, y: height - 1, "text-anchor": "end"}, document.createTextNode("ms")));
  rows.forEach((row, i) => picture.append(svg("text", {class: "name", x: 0, y: ROW * i + 15}, document.createTextNode(`rank ${row.rank} ${row.thread}`.slice(0, 18)))));
  for (const [row, name, begin, length] of spans) {
    const left_ = x(begin), wide = Math.max(0.6, x(begin + length) - left_), each = look(name % SHADES);
    const box = svg("g", {}, svg("rect", {x: left_.toFixed(2), y: ROW * row + 2, width: wide.toFixed(2), height: ROW - 4, fill: each.color, opacity: 1 - 0.3 * Math.floor(name / 6 % 3)},
      svg("title", {}, document.createTextNode(`${names[name]}: ${ms(length)} ms, from ${ms(begin)} ms`))));
    picture.append(box);
  }
  const move = (low, high) => {
    const size = Math.min(duration, Math.max(10, high - low)), begin = Math.max(0, Math.min(duration - size, low));
    onWindow({from: begin, to: begin + size >= duration ? null : begin + size});
  };
  const ACTIONS = [["earlier", "◂", () => move(from - width / 2, to - width / 2)], ["later", "▸", () => move(from + width / 2, to + width / 2)], ["closer", "+", () => move(from + width / 4, to - width / 4)],
    ["further", "−", () => move(from - width / 2, to + width / 2)], ["whole", "all", () => onWindow({from: 0, to: null})]];
  let tools = null;
  if (onWindow) {
    tools = h("div", {class: "tools", role: "group", "aria-label": `part of the profile of ${run}`}, ACTIONS.map(([key, sign, act]) => h("button", {class: "plain", type: "button", "data-key": `${run} ${key}`, "aria-label": key, onclick: act}, sign)),
      h("span", {class: "quiet"}, "Drag over the drawing to look closer."));
    const keys = {ArrowLeft: 0, ArrowRight: 1, "+": 2, "-": 3, Escape: 4};
    picture.addEventListener("keydown", (event) => {
      if (keys[event.key] === undefined) return;
      event.preventDefault();
      ACTIONS[keys[event.key]][2]();
    });
    const brush = svg("rect", {class: "brush", y: 0, height: height - 30, x: 0, width: 0});
    picture.append(brush);
    const place = (event) => { const box = picture.getBoundingClientRect(); return Math.max(LEFT, Math.min(WIDTH - 8, (event.clientX - box.left) * WIDTH / box.width)); };
    let start = null;
    picture.addEventListener("pointerdown", (event) => { start = place(event); picture.setPointerCapture(event.pointerId); });
    picture.addEventListener("pointermove", (event) => {
      if (start === null) return;
      brush.setAttribute("x", Math.min(start, place(event)));
      brush.setAttribute("width", Math.abs(place(event) - start));
    });
    picture.addEventListener("pointerup", (event) => {
      const [low, high] = [start, place(event)].sort((a, b) => a - b);
      start = null;
      const when = (at) => from + width * (at - LEFT) / (WIDTH - LEFT - 8);
      if (high - low > 4) move(when(low), when(high));
    });
  }
  const rowsOf = () => [["rank", "thread", "span", "begin_us", "length_us"], ...spans.map(([row, name, begin, length]) => [rows[row].rank, rows[row].thread, names[name], begin, length])];
  return h("figure", {class: "wide", role: "group", "aria-label": title}, h("figcaption", {}, h("span", {}, title), h("span", {class: "quiet last"}, `${ms(from)} to ${ms(to)} of ${ms(duration)} ms`), saveButtons(
    () => download(fileName(title, ".csv"), "text/csv", rowsOf().map((row) => row.map(csvField).join(",") + "\n").join("")), () => pictureFile(title, picture))),
  h("div", {class: "scroll bare", tabindex: 0, role: "region", "aria-label": `drawing of ${title}`}, picture), tools, h("ul", {class: "legend"}, names.map((name, i) => h("li", {}, svg("svg", {width: 12, height: 10, "aria-hidden": "true"},
    svg("rect", {width: 10, height: 10, fill: look(i % SHADES).color, opacity: 1 - 0.3 * Math.floor(i / 6 % 3)})), name))),
  left > 0 ? h("p", {class: "quiet"}, `${left} spans are too short to be seen at this scale.`) : null);
}
