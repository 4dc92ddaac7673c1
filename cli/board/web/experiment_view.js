// An experiment: its tables, charts and trials, and the runs with all training data side by side.
import {chart} from "./charts.js";
import {answers, get, h, numberCell, say} from "./dom.js";
import {change, damageList, numberHead, settings, table} from "./parts.js";
import {runsView} from "./runs_view.js";

/** Markdown as `foretime experiment` writes it: headings, paragraphs and tables. */
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
    } else if (line.trim() !== "") parts.push(h("p", {}, plain(line)));
  }
  flush();
  return parts;
}

/** Charts of the first metrics by share of the training data: the mean over the seeds of each entry. */
function chartsOf({columns, units, trials}) {
  const single = trials.filter((trial) => trial.kind !== "reference" && trial.seed !== "joined");
  const entries = [...new Set(single.map((trial) => trial.entry))], shares = [...new Set(single.map((trial) => Number(trial.fraction)))].sort((a, b) => a - b);
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const curve = (entry, metric) => {
    const points = shares.map((share) => [share, single.filter((trial) => trial.entry === entry && Number(trial.fraction) === share && trial.values[metric] !== undefined).map((trial) => trial.values[metric])]).filter(([, values]) => values.length > 0);
    return {name: entry, steps: points.map(([share]) => share), values: points.map(([, values]) => mean(values))};
  };
  if (shares.length < 2) return [];
  const charts = columns.slice(0, 6).map((metric) => [metric, entries.map((entry) => curve(entry, metric)).filter((each) => each.steps.length > 0)]).filter(([, series]) => series.length > 0);
  return charts.map(([metric, series]) => chart(metric + (units[metric] ? ` (${units[metric]})` : ""), series, {x: "share of the data"}));
}

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
    const charts = chartsOf(found), all = new URLSearchParams(found.main.map((run) => ["run", run]));
    document.title = `${found.name} – Foretime`;
    begin.replaceChildren(damageList([found]), ...summaryOf(found.summary), charts.length > 0 ? h("h2", {}, "By share of the training data, means over seeds") : "", h("div", {class: "charts"}, charts), trials,
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
