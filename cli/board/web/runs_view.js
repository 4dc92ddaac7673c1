// Run directories side by side.
import {chartGrid} from "./charts.js";
import {answers, csvField, download, get, h, numberCell, say, settingCell} from "./dom.js";
import {numberHead, settings, table, time} from "./parts.js";
import {scatter} from "./plots.js";

const METRICS = [["kendall_tau", "Kendall τ"], ["top1_slowdown", "top-1 slowdown"], ["top5_slowdown", "top-5 slowdown"]];

export function runsView(main) {
  const list = h("div"), charts = chartGrid(), more = chartGrid(), rest = h("details", {hidden: true}, h("summary", {}, "More measurements"), more.element), differences = h("div"), rankings = h("div"), search = h("input", {type: "search", oninput: () => narrow()});
  main.replaceChildren(h("h1", {}, "Runs"), ...(answers ? [] : [h("div", {class: "tools"}, h("label", {}, "with ", search), h("span", {class: "quiet"}, "Choose runs to compare them."))]), list, differences, charts.element, rankings, rest);
  const chosen = () => (answers ? answers.runs : settings().getAll("run"));
  const narrow = () => {
    for (const row of list.querySelectorAll("tbody tr")) row.hidden = !row.textContent.includes(search.value);
  };
  const compare = async () => {
    const names = chosen();
    const [runs, ranked] = await Promise.all(["run", "rankings"].map((what) => Promise.all(names.map((name) => get(`/api/${what}?name=${encodeURIComponent(name)}`)))));
    const lines = runs.map((run) => new Map(flat(run.settings)));
    const keys = [...new Set(lines.flatMap((each) => [...each.keys()]))].filter((key) => new Set(lines.map((each) => each.get(key))).size > 1);
    const rows = keys.map((key) => [key, ...lines.map((each) => each.get(key))]);
    differences.replaceChildren(...(runs.length < 2 || keys.length === 0 ? [] : [h("h2", {}, "Settings that differ ", h("button", {class: "plain", type: "button",
      onclick: () => download("settings.csv", "text/csv", [["setting", ...names], ...rows].map((row) => row.map(csvField).join(",")).join("\n") + "\n")}, "CSV")),
    table(["setting", ...names], rows.map(([key, ...values]) => h("tr", {}, h("td", {}, key), values.map((value) => settingCell(value)))), "settings")]),
    ...runs.filter((run) => run.comparison).map((run) => h("details", {open: runs.length === 1}, h("summary", {}, `${run.name}: tables`), h("pre", {tabindex: 0}, run.comparison))));
    const series = [...new Set(runs.flatMap((run) => Object.keys(run.history)))].sort((a, b) => b.includes("/") - a.includes("/") || a.localeCompare(b));
    const isFirst = (name) => name.includes("/") || name === "loss";
    charts.keep(series.filter(isFirst));
    more.keep(series.filter((name) => !isFirst(name)));
    rest.hidden = series.every(isFirst);
    for (const name of series) (isFirst(name) ? charts : more).show(name, runs.filter((run) => run.history[name]).map((run) => ({name: run.name, ...run.history[name]})));
    showRankings(ranked);
  };
  const showRankings = (ranked) => {
    const key = (group) => `${group.set}: ${group.group}`;
    const groups = [...new Set(ranked.flatMap((run) => run.groups.map(key)))].sort();
    if (groups.length === 0) return rankings.replaceChildren();
    const of = (run, name) => run.groups.find((group) => key(group) === name);
    const wanted = settings().get("group"), figure = h("div", {class: "charts"});
    const choice = h("select", {"aria-label": "group", onchange: () => {
      const query = settings();
      query.set("group", choice.value);
      history.replaceState(null, "", `${location.pathname}?${query}`);
      draw();
    }}, groups.map((name) => h("option", {value: name, selected: name === wanted}, name)));
    const draw = () => figure.replaceChildren(scatter(`Predicted and measured run times of ${choice.value}`, ranked.map((run) => ({name: run.name, points: of(run, choice.value)?.points ?? []}))));
    const rows = groups.flatMap((name) => ranked.filter((run) => of(run, name)).map((run) => [name, run.name, of(run, name)]));
    rankings.replaceChildren(h("h2", {}, "Rankings ", h("button", {class: "plain", type: "button", onclick: () => download("rankings.csv", "text/csv", [["group", "run", "candidates", "failed", ...METRICS.map(([metric]) => metric)],
      ...rows.map(([name, run, group]) => [name, run, group.candidates, group.failed, ...METRICS.map(([metric]) => group[metric] ?? "")])].map((row) => row.map(csvField).join(",")).join("\n") + "\n")}, "CSV")),
    h("div", {class: "tools"}, h("label", {}, "group ", choice)), figure, table(["group", "run", numberHead("candidates"), numberHead("failed"), ...METRICS.map(([, name]) => numberHead(name))],
      rows.map(([name, run, group]) => h("tr", {}, h("td", {title: name}, h("button", {class: "link", type: "button", onclick: () => { choice.value = name; choice.dispatchEvent(new Event("change")); }}, name)), h("td", {title: run}, run), numberCell(group.candidates), numberCell(group.failed),
        METRICS.map(([metric]) => numberCell(group[metric])))), "rankings"));
    draw();
  };
  const fail = (error) => say(error.message, true);
  if (answers) {
    compare().catch(fail);
    return () => {};
  }
  get("/api/runs").then(({runs, total}) => {
    list.replaceChildren(runs.length === 0 ? h("p", {class: "quiet"}, "none in this folder") : h("div", {class: "list"}, table(["", "run", "changed"], runs.map((run) => h("tr", {}, h("td", {}, h("input", {type: "checkbox", "aria-label": run.name, checked: chosen().includes(run.name),
      onchange: (event) => {
        const query = settings();
        event.target.checked ? query.append("run", run.name) : query.delete("run", run.name);
        history.replaceState(null, "", `${location.pathname}?${query}`);
        compare().catch(fail);
      }})), h("td", {title: run.name}, run.name), h("td", {}, time(run.modified_ms)))), "runs")), total > runs.length ? h("p", {}, `… and ${total - runs.length} more`) : "");
    return compare();
  }).catch(fail);
  return () => {};
}

/** The keys and values of a YAML file as foretime writes it: nested by spaces, one value a line. */
function flat(yaml) {
  const found = [], path = [];
  for (const line of yaml.split("\n")) {
    const match = /^( *)([\w]+):(?: (.*))?$/.exec(line.replace(/ +#.*$/, ""));
    if (!match) continue;
    path.length = match[1].length / 2;
    path.push(match[2]);
    if (match[3] !== undefined) found.push([path.join("."), match[3]]);
  }
  return found;
}
