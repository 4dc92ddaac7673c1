// Run directories side by side.
import {chartGrid} from "./charts.js";
import {answers, get, h, numberCell, renew, say, settingCell, timeCell} from "./dom.js";
import {change, damageList, numberHead, settings, table} from "./parts.js";
import {scatter} from "./plots.js";

const METRICS = [["kendall_tau", "Kendall τ"], ["top1_slowdown", "top-1 slowdown"], ["top5_slowdown", "top-5 slowdown"]];

export function runsView(main) {
  const list = h("div"), charts = chartGrid(), more = chartGrid(), rest = h("details", {hidden: true}, h("summary", {}, "More measurements"), more.element), differences = h("div"), rankings = h("div"), search = h("input", {type: "search", value: settings().get("with") ?? "", oninput: () => { change({with: search.value}); narrow(); }});
  const title = answers?.runs.length === 1 ? `Run ${answers.runs[0]}` : "Runs";
  if (answers) document.title = `${answers.runs.length === 1 ? title : answers.runs.join(", ")} – Foretime`;
  main.replaceChildren(h("h1", {}, title), ...(answers ? [] : [h("div", {class: "tools"}, h("label", {}, "with ", search), h("span", {class: "quiet"}, "Choose runs to compare them."))]), list, differences, charts.element, rankings, rest);
  const chosen = () => (answers ? answers.runs : settings().getAll("run"));
  const fail = (error) => say(error.message, true);
  /** Chosen ones stay in sight. */
  const narrow = () => {
    for (const row of list.querySelectorAll("tbody tr")) row.hidden = !row.textContent.includes(search.value) && !row.querySelector("input").checked;
  };
  const compare = async () => {
    const names = chosen();
    const [runs, ranked] = await Promise.all(["run", "rankings"].map((what) => Promise.all(names.map((name) => get(`/api/${what}?name=${encodeURIComponent(name)}`)))));
    const lines = runs.map((run) => new Map(flat(run.settings)));
    const keys = [...new Set(lines.flatMap((each) => [...each.keys()]))].filter((key) => new Set(lines.map((each) => each.get(key))).size > 1);
    const rowsOf = (which) => which.map((key) => h("tr", {}, h("td", {}, key), lines.map((each) => settingCell(each.get(key)))));
    const every = [...new Set(lines.flatMap((each) => [...each.keys()]))];
    const text = (run, what, name) => (run[what] ? [h("h3", {}, name), h("pre", {tabindex: 0, "aria-label": `${name} of ${run.name}`}, run[what])] : []);
    renew(differences, damageList([...runs, ...ranked]), ...(runs.length < 2 ? [] : [h("h2", {}, "Settings that differ"), keys.length === 0 ? h("p", {class: "quiet"}, "none") : table(["setting", ...names], rowsOf(keys), "settings")]),
      every.length > 0 ? h("details", {}, h("summary", {}, "All settings"), table(["setting", ...names], rowsOf(every), "all settings")) : "",
      ...runs.map((run) => h("details", {open: runs.length === 1}, h("summary", {}, `${run.name}: tables and files`),
        answers ? "" : h("p", {}, run.files.flatMap((file) => [h("a", {href: `/api/file?name=${encodeURIComponent(run.name)}&file=${file}`, download: file}, file), " "])),
        ...text(run, "comparison", "Comparison"), ...text(run, "profile", "Where the time went"))));
    const series = [...new Set(runs.flatMap((run) => Object.keys(run.history)))].sort((a, b) => b.includes("/") - a.includes("/") || a.localeCompare(b));
    // The metrics that they were trained for; without settings, all of evaluations.
    const metrics = new Set(lines.map((each) => each.get("trainer.metric")?.replaceAll('"', "")).filter(Boolean));
    const isFirst = (name) => name === "loss" || (series.some((each) => metrics.has(each)) ? metrics.has(name) : name.includes("/"));
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
    let list = null;
    const choice = h("select", {"aria-label": "group", onchange: () => {
      const query = settings();
      query.set("group", choice.value);
      history.replaceState(null, "", `${location.pathname}?${query}`);
      draw();
    }}, groups.map((name) => h("option", {value: name, selected: name === wanted}, name)));
    const draw = () => figure.replaceChildren(scatter(`Predicted and measured run times of ${choice.value}`, ranked.map((run) => ({name: run.name, points: of(run, choice.value)?.points ?? []}))), list);
    const rows = groups.flatMap((name) => ranked.filter((run) => of(run, name)).map((run) => [name, run.name, of(run, name)]));
    list = table(["group", "run", numberHead("candidates"), numberHead("failed"), ...METRICS.map(([, name]) => numberHead(name))],
      rows.map(([name, run, group]) => h("tr", {}, h("td", {title: name}, h("button", {class: "link", type: "button", onclick: () => { choice.value = name; choice.dispatchEvent(new Event("change")); }}, name)), h("td", {title: run}, run), numberCell(group.candidates), numberCell(group.failed),
        METRICS.map(([metric]) => numberCell(group[metric])))), "rankings");
    rankings.replaceChildren(h("h2", {}, "Rankings"), h("div", {class: "tools"}, h("label", {}, "group ", choice)), figure);
    draw();
  };
  if (answers) {
    compare().catch(fail);
    return () => {};
  }
  get("/api/runs").then(({runs, total, experiments}) => {
    if (experiments.length > 0) list.before(h("h2", {}, "Experiments"), h("ul", {class: "plain"}, experiments.map((each) => h("li", {}, h("a", {href: `/experiment?name=${encodeURIComponent(each.name)}`}, each.name)))), h("h2", {}, "Runs"));
    const missing = chosen().filter((name) => !runs.some((run) => run.name === name));
    if (missing.length > 0 && total === runs.length) throw new Error(`${missing.join(", ")}: no run of this name is here`);
    list.replaceChildren(runs.length === 0 ? h("p", {class: "quiet"}, "none in this folder") : h("div", {class: "list"}, table([h("th", {scope: "col"}, h("span", {class: "unseen"}, "chosen")), "run", "parameters", "changed"], runs.map((run) => h("tr", {}, h("td", {}, h("input", {type: "checkbox", "aria-label": run.name, checked: chosen().includes(run.name),
      onchange: (event) => {
        const query = settings();
        event.target.checked ? query.append("run", run.name) : query.delete("run", run.name);
        history.replaceState(null, "", `${location.pathname}${query.size > 0 ? "?" + query : ""}`);
        compare().catch(fail);
      }})), h("td", {title: run.name}, run.name), h("td", {title: run.parameters}, run.parameters || "–"), timeCell(run.modified_ms))), "runs")), total > runs.length ? h("p", {}, `… and ${total - runs.length} more`) : "");
    narrow();
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
