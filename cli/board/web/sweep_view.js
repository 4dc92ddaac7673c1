// One sweep: all curves, parameters against the objective, the table of its trials.
import {chartGrid} from "./charts.js";
import {answers, downloadFrom, follow, get, h, numberCell, renew, say, settingCell, short, spark, stateCell} from "./dom.js";
import {actionBar, change, duration, jobLink, percent, saveRows, settings, STATES, sweepText, table, tiles, time} from "./parts.js";
import {importanceBars, parallel} from "./plots.js";

const PAGE = 50;

/** In a report the whole table is there, and is put in order here. */
function select({sweep, trials, total}, query, page) {
  const key = query.get("sort") ?? "trial", down = query.get("descending") === "1" ? -1 : 1, search = query.get("search");
  const value = (job) => {
    const found = job[key] ?? job.parameters[key];
    return found === undefined || found === null || found === "" ? null : Number.isNaN(Number(found)) ? found : Number(found);
  };
  const shown = trials.filter((job) => (!query.get("state") || job.state === query.get("state")) &&
    (!search || [job.id, job.name, ...Object.values(job.parameters)].some((text) => text.includes(search))));
  shown.sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    return x === null || y === null ? (x === null) - (y === null) : down * (x < y ? -1 : x > y ? 1 : 0);
  });
  const from = Number(query.getAll("from").pop() ?? 0);
  return {sweep, trials: shown.slice(from, from + page), total: shown.length, from, left_out: total - trials.length};
}

/** What an address says of one axis: [name, low, high]. */
function brushOf(text) {
  try {
    const found = JSON.parse(text);
    return Array.isArray(found) && found.length === 3 ? found : null;
  } catch {
    return null;
  }
}

export function sweepView(main, id) {
  const head = h("div"), actions = h("div"), rows = h("div"), pager = h("div", {class: "tools"}), charts = chartGrid(), columns = h("details", {class: "menu"});
  const state = h("select", {"aria-label": "state", onchange: () => { change({state: state.value, from: ""}); restart(); }},
    h("option", {value: ""}, "any state"), STATES.map((name) => h("option", {value: name, selected: settings().get("state") === name}, name)));
  let typing;
  const search = h("input", {type: "search", value: settings().get("search") ?? "", oninput: () => {
    clearTimeout(typing);
    typing = setTimeout(() => { change({search: search.value, from: ""}); restart(); }, 150);
  }});
  main.replaceChildren(head, actions, charts.element, h("h2", {}, "Trials"), h("div", {class: "tools"}, state, h("label", {}, "with ", search), columns,
    h("button", {class: "plain", type: "button", onclick: () => saveTable()}, "CSV")), rows, pager);

  const order = (key, label, number) => {
    const active = (settings().get("sort") ?? "trial") === key, descending = settings().get("descending") === "1";
    return h("th", {scope: "col", class: number ? "number" : "", "aria-sort": active ? (descending ? "descending" : "ascending") : null},
      h("button", {type: "button", title: label, "data-key": key, onclick: () => { change({sort: key, descending: active && !descending ? "1" : "", from: ""}); restart(); }},
        label + (active ? (descending ? " ▾" : " ▴") : "")));
  };
  let latest = null, everything = null, sweepState = "", parameters = [], curves = null, chosen = null;
  const hidden = () => new Set(settings().getAll("hide"));
  const showColumns = () => {
    if (columns.contains(document.activeElement) && columns.open) return;
    columns.replaceChildren(h("summary", {}, "Columns"), h("div", {}, parameters.map((name) => h("label", {}, h("input", {type: "checkbox", checked: !hidden().has(name), onchange: (event) => {
      const query = settings();
      event.target.checked ? query.delete("hide", name) : query.append("hide", name);
      history.replaceState(null, "", `${location.pathname}${query.size > 0 ? "?" + query : ""}`);
      showTable();
    }}), name))));
  };
  const showTable = () => {
    const {sweep, trials, total, from, left_out: leftOut} = latest;
    const shown = parameters.filter((name) => !hidden().has(name));
    renew(rows, table([order("trial", "trial", true), "job", order("state", "state"), order("objective", sweep.metric, true), "curve",
      order("step", "progress", true), order("seconds", "time", true), ...shown.map((name) => order(name, name))],
      trials.map((job) => h("tr", {"data-id": job.id}, numberCell(job.trial), h("td", {}, jobLink(job)), stateCell(job), numberCell(job.objective),
        h("td", {}, spark(job.curve)), h("td", {class: "number"}, percent(job)), h("td", {class: "number"}, job.seconds > 0 ? duration(job.seconds) : "–"),
        ...shown.map((name) => settingCell(job.parameters[name])))), "trials", {save: false}));
    renew(pager, h("button", {class: "plain", type: "button", disabled: from === 0, onclick: () => { change({from: String(Math.max(0, from - PAGE) || "")}); restart(); }}, "Back"),
      h("span", {}, total === 0 ? "no trial" : `${from + 1} to ${from + trials.length} of ${total}${leftOut > 0 ? `; ${leftOut} with worse objectives, or none, are not in this report` : ""}`),
      h("button", {class: "plain", type: "button", disabled: from + trials.length >= total, onclick: () => { change({from: String(from + PAGE)}); restart(); }}, "Next"));
  };
  /** All that the filter lets through; the server writes them, but in a report. */
  const saveTable = () => {
    if (!answers) return downloadFrom(`/api/trials.csv?id=${encodeURIComponent(id)}&${settings()}`, "trials.csv");
    const all = select(everything, new URLSearchParams([...settings(), ["from", "0"]]), Infinity).trials;
    saveRows(everything.sweep.name, [["trial", "id", "state", everything.sweep.metric, "step", "seconds", ...parameters],
      ...all.map((job) => [job.trial, job.id, job.state, job.objective ?? "", job.step, job.seconds, ...parameters.map((name) => job.parameters[name] ?? "")])]);
  };
  const showHead = () => {
    const {sweep} = latest;
    document.title = `${sweep.name} – Foretime`;
    renew(head, h("h1", {}, sweep.name), sweep.damaged ? h("p", {class: "error"}, `damaged: ${sweep.damaged}`) : "", h("p", {class: "quiet"},
      `${sweep.id}: ${sweep.method}, ${sweep.goal} ${sweep.metric}, ${sweepText(sweep)}, created ${time(sweep.created_ms)}`),
      tiles([...STATES.filter((name) => sweep.jobs[name] > 0).map((name) => [name, sweep.jobs[name]]), ...bestTile()]));
  };
  const show = (answer) => {
    if (answers) everything = answer;
    latest = answers ? select(answer, settings(), PAGE) : answer;
    const {sweep, trials} = latest;
    showHead();
    if (sweepState !== sweep.state && renew(actions, actionBar(`sweep ${sweep.id}`, sweep.id, [sweep.state === "paused" ? "resume" : "pause", "cancel", "retry", "priority"]))) sweepState = sweep.state;
    const names = [...new Set([...parameters, ...trials.flatMap((job) => Object.keys(job.parameters))])].sort();
    if (names.length !== parameters.length || columns.childElementCount === 0) {
      parameters = names;
      showColumns();
    }
    showTable();
  };
  const bestTile = () => {
    const best = curves?.best;
    return best ? [[`best ${curves.metric}, trial ${best.trial}`, h("a", {href: `/job/${best.id}`, title: best.value, "data-value": best.value}, short(best.value))]] : [];
  };
  const showCurves = (answer) => {
    curves = answer;
    if (latest) showHead();
    const all = curves.curves.filter((each) => !chosen || chosen.has(each.id));
    // Rungs are numbers of evaluations, which come at equal distances.
    const every = Math.min(...curves.curves.map((each) => each.curve.steps[0]).filter((step) => step > 0));
    charts.show(`${curves.metric} of ${chosen ? "chosen trials" : curves.total > curves.curves.length ? "the best trials and some others" : "all trials"}`, all.map((each) => ({name: `trial ${each.trial}`, ...each.curve})),
      {key: "curves", wide: true, marks: Number.isFinite(every) ? curves.rungs.map((rung) => rung * every) : []});
  };
  const showOverview = ({best, points, importance}) => {
    charts.show(`best ${latest ? latest.sweep.metric : "value"} so far`, [{name: "best", steps: best.map(([when]) => when / 1000), values: best.map(([, value]) => value)}], {key: "best", x: "time", stepped: true});
    if (importance.length > 0) charts.put("importance", importanceBars("Importance of parameters", importance));
    const measured = points.filter((point) => point.objective !== null);
    if (charts.of("parallel")?.busy || measured.length < 2 || !latest || measured.every((point) => Object.keys(point.parameters).length === 0)) return;
    charts.put("parallel", parallel("Parameters and objective", measured, latest.sweep.metric, latest.sweep.goal, settings().getAll("brush").map(brushOf).filter(Boolean), (kept, brushes) => {
      const query = settings();
      query.delete("brush");
      for (const brush of brushes) query.append("brush", JSON.stringify(brush));
      history.replaceState(null, "", `${location.pathname}${query.size > 0 ? "?" + query : ""}`);
      chosen = kept && new Set(kept.map((point) => point.id));
      if (curves) showCurves(curves);
    }));
  };
  const query = encodeURIComponent(id);
  let stop = () => {}, later;
  const pathNow = () => (answers ? `/api/sweep?id=${query}` : `/api/sweep?id=${query}&limit=${PAGE}&${settings()}`);
  const start = () => {
    stop();
    stop = follow({[pathNow()]: show, [`/api/curves?id=${query}`]: showCurves, [`/api/overview?id=${query}`]: showOverview});
  };
  /** The table at once; a connection that follows all of it comes later. */
  const restart = (wait = 300) => {
    stop();
    clearTimeout(later);
    const path = pathNow();
    get(path).then((answer) => { if (path === pathNow()) show(answer); }).catch((error) => say(error.message, true));
    later = setTimeout(start, wait);
  };
  restart(0);
  return () => { clearTimeout(later); stop(); };
}
