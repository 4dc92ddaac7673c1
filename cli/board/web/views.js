// The views. Each fills `main` and returns what ends it.
import {chartGrid} from "./charts.js";
import {duration, follow, get, h, numberCell, settingCell, short, spark, stateCell, stateText, time} from "./dom.js";

const STATES = ["active", "delayed", "waiting", "held", "blocked", "succeeded", "failed", "cancelled", "dead"];
const tiles = (pairs) => h("ul", {class: "tiles"}, pairs.map(([name, value]) => h("li", {}, h("b", {"data-name": name}, value), h("span", {}, name))));
const table = (heads, rows, label) => h("div", {class: "scroll", tabindex: 0, role: "region", "aria-label": label},
  h("table", {}, h("thead", {}, h("tr", {}, heads.map((head) => (head instanceof Node ? head : h("th", {scope: "col"}, head))))), h("tbody", {}, rows)));
const counts = (jobs) => STATES.filter((state) => jobs[state] > 0).map((state) => `${jobs[state]} ${state}`).join(", ") || "none";
const percent = (job) => (job.total_steps > 0 ? `${Math.floor(100 * Math.min(1, job.step / job.total_steps))} %` : "–");
const jobLink = (job) => h("a", {href: `/job/${job.id}`}, job.id.slice(0, 8));

function jobRow(job) {
  return h("tr", {"data-id": job.id}, h("td", {}, jobLink(job)), h("td", {title: job.name}, job.name || "–"), stateCell(job),
    numberCell(job.objective), h("td", {class: "number"}, percent(job)), h("td", {title: job.agent}, job.agent || "–"),
    h("td", {title: job.reason}, job.reason || "–"));
}

export function queueView(main) {
  const summary = h("div"), sweeps = h("div"), jobs = h("div");
  main.replaceChildren(h("h1", {}, "Queue"), summary, h("h2", {}, "Sweeps"), sweeps, h("h2", {}, "Jobs"), jobs);
  return follow("/api/queue", (answer) => {
    const {queue} = answer;
    const alive = queue.agents.filter((agent) => queue.now_ms - agent.seen_ms < 120000).length;
    summary.replaceChildren(
      h("p", {class: "quiet"}, `${answer.name}${queue.paused ? "; the queue is paused" : ""}`),
      ...answer.warnings.map((text) => h("p", {class: "error"}, text)), ...queue.unreadable.map((text) => h("p", {class: "error"}, `damaged: ${text}`)),
      tiles([...STATES.filter((state) => queue.jobs[state] > 0).map((state) => [state, queue.jobs[state]]), ["agents", alive],
        ["ended a minute", short((queue.per_minute.succeeded ?? 0) + (queue.per_minute.failed ?? 0) + (queue.per_minute.dead ?? 0))],
        ["oldest waits", queue.oldest_waiting_ms > 0 ? duration(queue.oldest_waiting_ms / 1000) : "–"]]));
    sweeps.replaceChildren(answer.sweeps.length === 0 ? h("p", {class: "quiet"}, "none; foretime submit SWEEP.yaml adds one") :
      table(["sweep", "name", "state", "method", "objective", "jobs", "created"], answer.sweeps.map((sweep) => h("tr", {"data-id": sweep.id},
        h("td", {}, h("a", {href: `/sweep/${sweep.id}`}, sweep.id.slice(0, 8))), h("td", {title: sweep.name}, sweep.name), h("td", {}, sweep.state),
        h("td", {}, sweep.method), h("td", {title: sweep.metric}, `${sweep.goal} ${sweep.metric}`), h("td", {}, counts(sweep.jobs)),
        h("td", {}, time(sweep.created_ms)))), "sweeps"));
    jobs.replaceChildren(table(["job", "name", "state", "objective", "progress", "agent", "reason"], answer.jobs.map(jobRow), "jobs"));
  });
}

export function agentsView(main) {
  const place = h("div");
  main.replaceChildren(h("h1", {}, "Agents"), place);
  return follow("/api/queue", ({queue}) => {
    place.replaceChildren(queue.agents.length === 0 ? h("p", {class: "quiet"}, "none was heard of; foretime agent starts one") :
      table(["agent", "host", "jobs", "CPUs", "GPUs", "silent for", "started", "version", "claims nothing because"], queue.agents.map((agent) => h("tr", {},
        h("td", {title: agent.name}, agent.name), h("td", {}, agent.host), numberCell(agent.jobs), numberCell(agent.cpus), numberCell(agent.gpus),
        h("td", {class: "number"}, duration(Math.max(0, queue.now_ms - agent.seen_ms) / 1000)), h("td", {}, time(agent.started_ms)), h("td", {}, agent.version),
        h("td", {class: agent.trouble ? "error" : "", title: agent.trouble}, agent.trouble || "–"))), "agents"));
  });
}

/** The address keeps what a view is set to, so that it can be shared. */
function settings() {
  return new URLSearchParams(location.search);
}
function change(changes) {
  const query = settings();
  for (const [name, value] of Object.entries(changes)) value === "" ? query.delete(name) : query.set(name, value);
  history.replaceState(null, "", `${location.pathname}${query.size > 0 ? "?" + query : ""}`);
}

const PAGE = 50;

export function sweepView(main, id) {
  const head = h("div"), rows = h("div"), pager = h("div", {class: "tools"}), charts = chartGrid();
  const state = h("select", {"aria-label": "state", onchange: () => { change({state: state.value, from: ""}); restart(); }},
    h("option", {value: ""}, "any state"), STATES.map((name) => h("option", {value: name, selected: settings().get("state") === name}, name)));
  const search = h("input", {type: "search", value: settings().get("search") ?? "",
    oninput: () => { change({search: search.value, from: ""}); restart(); }});
  main.replaceChildren(head, charts.element, h("h2", {}, "Trials"), h("div", {class: "tools"}, state, h("label", {}, "with ", search)), rows, pager);

  const order = (key, label, number) => {
    const active = (settings().get("sort") ?? "trial") === key, descending = settings().get("descending") === "1";
    return h("th", {scope: "col", class: number ? "number" : "", "aria-sort": active ? (descending ? "descending" : "ascending") : null},
      h("button", {type: "button", title: label, onclick: () => { change({sort: key, descending: active && !descending ? "1" : "", from: ""}); restart(); }},
        label + (active ? (descending ? " ▾" : " ▴") : "")));
  };
  const show = (answer) => {
    const {sweep, trials, total, from} = answer;
    document.title = `${sweep.name} – Foretime`;
    head.replaceChildren(h("h1", {}, sweep.name), h("p", {class: "quiet"},
      `${sweep.id}: ${sweep.method}, ${sweep.goal} ${sweep.metric}, ${sweep.state}, created ${time(sweep.created_ms)}`),
      tiles(STATES.filter((name) => sweep.jobs[name] > 0).map((name) => [name, sweep.jobs[name]])));
    const parameters = [...new Set(trials.flatMap((job) => Object.keys(job.parameters)))].sort();
    rows.replaceChildren(table([order("trial", "trial", true), "job", order("state", "state"), order("objective", sweep.metric, true), "curve",
      order("step", "progress", true), order("seconds", "time", true), ...parameters.map((name) => order(name, name))],
      trials.map((job) => h("tr", {"data-id": job.id}, numberCell(job.trial), h("td", {}, jobLink(job)), stateCell(job), numberCell(job.objective),
        h("td", {}, spark(job.curve)), h("td", {class: "number"}, percent(job)), h("td", {class: "number"}, job.seconds > 0 ? duration(job.seconds) : "–"),
        ...parameters.map((name) => settingCell(job.parameters[name])))), "trials"));
    pager.replaceChildren(h("button", {class: "plain", type: "button", disabled: from === 0, onclick: () => { change({from: String(Math.max(0, from - PAGE) || "")}); restart(); }}, "Back"),
      h("span", {}, total === 0 ? "no trial" : `${from + 1} to ${from + trials.length} of ${total}`),
      h("button", {class: "plain", type: "button", disabled: from + trials.length >= total, onclick: () => { change({from: String(from + PAGE)}); restart(); }}, "Next"));
    charts.show(`${sweep.metric} of these trials`, trials.filter((job) => job.curve).map((job) => ({name: `trial ${job.trial}`, ...job.curve})));
  };
  let stop = () => {};
  const restart = () => {
    stop();
    stop = follow(`/api/sweep?id=${encodeURIComponent(id)}&limit=${PAGE}&${settings()}`, show);
  };
  restart();
  const stopOverview = follow(`/api/overview?id=${encodeURIComponent(id)}`, ({best}) => {
    charts.show("best so far", [{name: "best", steps: best.map(([when]) => when / 1000), values: best.map(([, value]) => value)}], "time");
  });
  return () => { stop(); stopOverview(); };
}

function facts(pairs) {
  return h("dl", {}, pairs.filter(([, value]) => value !== "" && value !== null && value !== undefined && value !== "–")
    .flatMap(([name, value]) => [h("dt", {}, name), h("dd", {"data-name": name}, value)]));
}

const FIRST = ["loss", "learning_rate", "candidates_per_second", "memory_mib", "cpu_cores", "gpu_percent", "gpu_memory_mib"];

export function jobView(main, id) {
  const head = h("div"), charts = chartGrid(), more = chartGrid(), log = h("pre", {tabindex: 0, "aria-label": "log"}), text = h("pre", {tabindex: 0});
  const rest = h("details", {hidden: true}, h("summary", {}, "More measurements"), more.element);
  main.replaceChildren(head, charts.element, rest, h("h2", {}, "Log"), log, h("h2", {}, "Settings"), text);
  const stopJob = follow(`/api/job?id=${encodeURIComponent(id)}`, (job) => {
    document.title = `${job.name || job.id} – Foretime`;
    const base = Object.entries(job.parameters);
    head.replaceChildren(h("h1", {}, job.name || job.id), h("p", {}, h("span", {class: "state " + stateText(job)}, stateText(job)), " ", h("span", {class: "quiet"}, job.reason)),
      job.error ? h("pre", {class: "error"}, job.error) : "",
      facts([["job", job.id], ["kind", job.kind], ["sweep", job.sweep ? h("a", {href: `/sweep/${job.sweep}`}, job.sweep) : ""], ["trial", job.trial < 0 ? "" : job.trial],
        ["attempt", `${job.attempt} of ${job.max_attempts}`], ["agent", job.agent], ["progress", job.total_steps > 0 ? `step ${job.step} of ${job.total_steps}` : ""],
        ["remaining", job.eta_seconds === null ? "" : duration(job.eta_seconds)], [job.metric, job.objective === null ? "" : h("span", {title: job.objective, "data-value": job.objective}, short(job.objective))],
        ["submitted", time(job.submitted_ms)], ["claimed", time(job.claimed_ms)], ["finished", time(job.finished_ms)], ["took", job.seconds > 0 ? duration(job.seconds) : ""],
        ["checkpoint", job.checkpoint], ["history", job.history_source]]),
      base.length > 0 ? h("h2", {}, "What differs from the sweep's base") : "",
      base.length > 0 ? table(["setting", "value"], base.map(([name, value]) => h("tr", {}, h("td", {}, name), settingCell(value))), "parameters") : "",
      Object.keys(job.metrics).length > 0 ? h("h2", {}, "Metrics") : "",
      Object.keys(job.metrics).length > 0 ? table(["metric", "value"], Object.entries(job.metrics).map(([name, value]) => h("tr", {}, h("td", {}, name), numberCell(value))), "metrics") : "");
    text.textContent = job.settings;
    for (const name of [job.metric, ...FIRST]) if (job.history[name]) charts.show(name, [{name, ...job.history[name]}]);
    for (const [name, series] of Object.entries(job.history)) {
      if (name === job.metric || FIRST.includes(name)) continue;
      rest.hidden = false;
      more.show(name, [{name, ...series}]);
    }
  });
  const stopLog = follow(`/api/log?id=${encodeURIComponent(id)}`, ({lines, total}) => {
    const atEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
    log.textContent = (total > lines.length ? `… ${total - lines.length} lines before these are in output.log\n` : "") + lines.join("\n");
    if (atEnd) log.scrollTop = log.scrollHeight;
  });
  return () => { stopJob(); stopLog(); };
}

export function runsView(main) {
  const list = h("div"), charts = chartGrid(), differences = h("div");
  main.replaceChildren(h("h1", {}, "Runs"), h("p", {class: "quiet"}, "Choose runs to compare them."), list, differences, charts.element);
  const chosen = () => settings().getAll("run");
  const compare = async () => {
    const runs = await Promise.all(chosen().map((name) => get(`/api/run?name=${encodeURIComponent(name)}`)));
    const lines = runs.map((run) => new Map(flat(run.settings)));
    const keys = [...new Set(lines.flatMap((each) => [...each.keys()]))].filter((key) => new Set(lines.map((each) => each.get(key))).size > 1);
    differences.replaceChildren(runs.length > 1 && keys.length > 0 ? h("h2", {}, "Settings that differ") : "",
      runs.length > 1 && keys.length > 0 ? table(["setting", ...runs.map((run) => run.name)], keys.map((key) => h("tr", {}, h("td", {}, key), lines.map((each) => settingCell(each.get(key))))), "settings") : "",
      ...runs.filter((run) => run.comparison).map((run) => h("pre", {tabindex: 0}, `${run.name}\n${run.comparison}`)));
    const names = [...new Set(runs.flatMap((run) => Object.keys(run.history)))].sort();
    for (const name of names) charts.show(name, runs.filter((run) => run.history[name]).map((run) => ({name: run.name, ...run.history[name]})));
  };
  const state = document.getElementById("state");
  const fail = (error) => { state.textContent = error.message; };
  get("/api/runs").then(({runs, total}) => {
    list.replaceChildren(table(["", "run", "changed"], runs.map((run) => h("tr", {}, h("td", {}, h("input", {type: "checkbox", "aria-label": run.name, checked: chosen().includes(run.name),
      onchange: (event) => {
        const query = settings();
        event.target.checked ? query.append("run", run.name) : query.delete("run", run.name);
        history.replaceState(null, "", `${location.pathname}?${query}`);
        compare().catch(fail);
      }})), h("td", {}, run.name), h("td", {}, time(run.modified_ms)))), "runs"), total > runs.length ? h("p", {}, `… and ${total - runs.length} more`) : "");
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
