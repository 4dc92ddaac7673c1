// An experiment: its tables, figures and trials, and the runs with all training data side by side.
import {answers, get, h, numberCell, say} from "./dom.js";
import {change, damageList, numberHead, settings, table} from "./parts.js";
import {runsView} from "./runs_view.js";

/** Markdown as `foretime experiment` writes it: headings, paragraphs, tables and pictures, which stand elsewhere. */
function summaryOf(markdown) {
  const parts = [];
  let rows = [];
  let title = "";
  const plain = (text) => text.replace(/`([^`]*)`/g, "$1").replace(/\\\|/g, "|");
  const flush = () => {
    if (rows.length > 1) {
      const cells = rows.map((row) => row.slice(1, -1).split(/(?<!\\)\|/).map((cell) => plain(cell.trim())));
      parts.push(table(cells[0].map((cell, i) => (i === 0 ? cell : numberHead(cell))), cells.slice(2).map((row) => h("tr", {}, row.map((cell, i) => h("td", {class: i === 0 ? null : "number"}, cell)))), title || "summary"));
    }
    rows = [];
  };
  for (const line of markdown.split("\n")) {
    if (line.startsWith("|")) { rows.push(line.trim()); continue; }
    flush();
    const heading = /^(#+) (.*)$/.exec(line);
    if (heading) {
      title = plain(heading[2]);
      parts.push(h(heading[1].length === 1 ? "h1" : "h2", {}, title));
    } else if (line.trim() !== "" && !line.startsWith("![")) parts.push(h("p", {}, plain(line)));
  }
  flush();
  return parts;
}

const picture = ({name, svg: text}) => {
  const bytes = new TextEncoder().encode(text);
  const address = "data:image/svg+xml;base64," + btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  return h("figure", {role: "group", "aria-label": name}, h("figcaption", {}, h("span", {}, name.replaceAll("_", " ")), h("span", {class: "saves"}, h("a", {href: address, download: `${name}.svg`, "aria-label": `save ${name} as SVG`}, "SVG"))),
    h("img", {src: address, alt: `figure ${name}; its numbers are in the tables`}));
};

/** All trials, in the order that the address asks for. */
function trialTable(place, {columns, units, trials}) {
  const query = settings(), key = query.get("sort") ?? "", down = query.get("descending") === "1" ? -1 : 1;
  const value = (trial) => (columns.includes(key) ? trial.values[key] : Number.isNaN(Number(trial[key])) ? trial[key] : Number(trial[key]));
  const shown = key === "" ? trials : [...trials].sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    return x === undefined || y === undefined ? (x === undefined) - (y === undefined) : down * (x < y ? -1 : x > y ? 1 : 0);
  });
  const head = (name, label, number) => h("th", {scope: "col", class: number ? "number" : "", "aria-sort": key === name ? (down < 0 ? "descending" : "ascending") : null}, h("button", {type: "button", title: label, "data-key": name, onclick: () => {
    change({sort: name, descending: key === name && down > 0 ? "1" : ""});
    trialTable(place, {columns, units, trials});
    place.querySelector(`[data-key="${name}"]`)?.focus();
  }}, label + (key === name ? (down < 0 ? " ▾" : " ▴") : "")));
  place.replaceChildren(h("h2", {}, "Trials"), table([head("entry", "entry"), head("fraction", "share of the data", true), head("seed", "seed", true), ...columns.map((name) => head(name, name + (units[name] ? ` (${units[name]})` : ""), true))],
    shown.map((trial) => h("tr", {}, h("td", {}, trial.entry), h("td", {class: "number"}, trial.fraction), h("td", {class: "number"}, trial.seed), columns.map((name) => numberCell(trial.values[name] ?? null)))), "trials"));
}

export function experimentView(main) {
  const name = answers ? "." : settings().get("name") ?? ".", trials = h("div"), runs = h("div"), begin = h("div");
  let leave = () => {};
  main.replaceChildren(begin);
  get(`/api/experiment?name=${encodeURIComponent(name)}`).then((found) => {
    const all = new URLSearchParams(found.main.map((run) => ["run", run]));
    document.title = `${found.name} – Foretime`;
    begin.replaceChildren(damageList([found]), ...summaryOf(found.summary), found.figures.length > 0 ? h("h2", {}, "Figures") : "", h("div", {class: "charts"}, found.figures.map(picture)), trials,
      answers || found.main.length === 0 ? "" : h("p", {}, h("a", {href: `/runs?${all}`}, `Compare the ${found.main.length} runs with all training data`), ": curves, settings, and predicted against measured run times of each group"));
    if (found.trials.length > 0) trialTable(trials, found);
    if (answers?.runs.length > 0) {
      main.append(runs);
      leave = runsView(runs);
      runs.querySelector("h1")?.replaceWith(h("h2", {}, "Runs with all training data"));
    }
  }).catch((error) => say(error.message, true));
  return () => leave();
}
