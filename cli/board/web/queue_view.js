// The queue and its agents.
import {chartGrid} from "./charts.js";
import {follow, h, numberCell} from "./dom.js";
import {actionBar, change, counts, duration, fill, jobRow, numberHead, settings, short, STATES, table, tiles, time} from "./parts.js";

const SPANS = [["5", "5 minutes"], ["60", "1 hour"], ["1440", "1 day"], ["10080", "7 days"]];

export function queueView(main) {
  const summary = h("div"), actions = h("div"), charts = chartGrid(), demand = h("div"), sweeps = h("div"), jobs = h("div");
  const minutes = () => settings().get("minutes") ?? "60";
  const span = h("select", {"aria-label": "span of time", onchange: () => { change({minutes: span.value === "60" ? "" : span.value}); restart(); }},
    SPANS.map(([value, name]) => h("option", {value, selected: minutes() === value}, name)));
  main.replaceChildren(h("h1", {}, "Queue"), summary, actions, h("h2", {}, "Sweeps"), sweeps, h("h2", {}, "Load over the last ", span), charts.element, demand, h("h2", {}, "Jobs"), jobs);
  let paused = null;
  const showQueue = (answer) => {
    const {queue} = answer;
    const alive = queue.agents.filter((agent) => queue.now_ms - agent.seen_ms < 120000).length;
    summary.replaceChildren(
      h("p", {class: "quiet"}, `${answer.name}${queue.paused ? "; the queue is paused" : ""}`),
      ...answer.warnings.map((text) => h("p", {class: "error"}, text)), ...queue.unreadable.map((text) => h("p", {class: "error"}, `damaged: ${text}`)),
      tiles([...STATES.filter((state) => queue.jobs[state] > 0).map((state) => [state, queue.jobs[state]]), ["agents", alive],
        ["ended a minute", short((queue.per_minute.succeeded ?? 0) + (queue.per_minute.failed ?? 0) + (queue.per_minute.dead ?? 0))],
        ["oldest waits", queue.oldest_waiting_ms > 0 ? duration(queue.oldest_waiting_ms / 1000) : "–"]]));
    if (paused !== queue.paused) fill(actions, actionBar("the queue", "", [queue.paused ? "resume" : "pause"]));
    paused = queue.paused;
    sweeps.replaceChildren(answer.sweeps.length === 0 ? h("p", {class: "quiet"}, "none; foretime submit SWEEP.yaml adds one") :
      table(["sweep", "name", "state", "method", "objective", "jobs", "created"], answer.sweeps.map((sweep) => h("tr", {"data-id": sweep.id},
        h("td", {}, h("a", {href: `/sweep/${sweep.id}`}, sweep.id.slice(0, 8))), h("td", {title: sweep.name}, sweep.name), h("td", {}, sweep.state),
        h("td", {}, sweep.method), h("td", {title: sweep.metric}, `${sweep.goal} ${sweep.metric}`), h("td", {}, counts(sweep.jobs)),
        h("td", {}, time(sweep.created_ms)))), "sweeps"));
    jobs.replaceChildren(answer.jobs.length === 0 ? h("p", {class: "quiet"}, "none") :
      table(["job", "name", "state", numberHead("objective"), numberHead("progress"), "agent", "reason"], answer.jobs.map(jobRow), "jobs"));
  };
  const showActivity = ({times, waiting, active, ended, failed, every_ms, demand: needs}) => {
    const steps = times.map((each) => each / 1000);
    charts.show("jobs that wait and run", [{name: "waiting", steps, values: waiting}, {name: "active", steps, values: active}], {x: "time"});
    charts.show("jobs that end a minute", [{name: "ended", steps, values: ended.map((count) => (count === null ? null : count * 60000 / every_ms))},
      {name: "of these failed", steps, values: failed.map((count) => (count === null ? null : count * 60000 / every_ms))}], {x: "time"});
    demand.replaceChildren(needs.length === 0 ? "" : table(["waiting jobs by what they need", numberHead("CPUs"), numberHead("GPUs"), numberHead("jobs")],
      needs.map((need) => h("tr", {}, h("td", {}, ""), numberCell(need.cpus), numberCell(need.gpus), numberCell(need.jobs))), "demand"));
  };
  let stop = () => {};
  const restart = () => {
    stop();
    stop = follow({"/api/queue": showQueue, [`/api/activity?minutes=${minutes()}`]: showActivity});
  };
  restart();
  return () => stop();
}

export function agentsView(main) {
  const place = h("div");
  main.replaceChildren(h("h1", {}, "Agents"), place);
  return follow({"/api/queue": ({queue}) => {
    const share = (agent) => h("td", {}, h("meter", {min: 0, max: Math.max(1, agent.cpus), value: agent.jobs, "aria-label": `${agent.jobs} jobs on ${agent.cpus} CPUs`}));
    place.replaceChildren(queue.agents.length === 0 ? h("p", {class: "quiet"}, "none was heard of; foretime agent starts one") :
      table(["agent", "host", numberHead("jobs"), "use", numberHead("CPUs"), numberHead("GPUs"), numberHead("silent for"), "claims nothing because", "started", "version"], queue.agents.map((agent) => h("tr", {},
        h("td", {title: agent.name}, agent.name), h("td", {}, agent.host), numberCell(agent.jobs), share(agent), numberCell(agent.cpus), numberCell(agent.gpus),
        h("td", {class: "number"}, duration(Math.max(0, queue.now_ms - agent.seen_ms) / 1000)),
        h("td", {class: agent.trouble ? "error" : "", title: agent.trouble}, agent.trouble || "–"), h("td", {}, time(agent.started_ms)), h("td", {}, agent.version))), "agents"));
  }});
}
