// The queue and its agents.
import {chartGrid} from "./charts.js";
import {follow, h, numberCell, renew, timeCell} from "./dom.js";
import {actionBar, change, counts, duration, jobLink, jobRow, numberHead, settings, short, STATES, sweepText, table, tiles} from "./parts.js";

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
    renew(summary,
      h("p", {class: "quiet"}, `${answer.name}${queue.paused ? "; the queue is paused" : ""}`),
      ...answer.warnings.map((text) => h("p", {class: "error"}, text)), ...queue.unreadable.map((text) => h("p", {class: "error"}, `damaged: ${text}`)),
      tiles([...STATES.filter((state) => queue.jobs[state] > 0).map((state) => [state, queue.jobs[state]]), ["agents", alive],
        ["ended a minute", short((queue.per_minute.succeeded ?? 0) + (queue.per_minute.failed ?? 0) + (queue.per_minute.dead ?? 0))],
        ["oldest waits", queue.oldest_waiting_ms > 0 ? duration(queue.oldest_waiting_ms / 1000) : "–"]]));
    if (paused !== queue.paused && renew(actions, actionBar("the queue", "", [queue.paused ? "resume" : "pause"]))) paused = queue.paused;
    renew(sweeps, answer.sweeps.length === 0 ? h("p", {class: "quiet"}, "none; foretime submit SWEEP.yaml adds one") :
      table(["sweep", "name", "state", "method", "objective", "jobs", "created"], answer.sweeps.map((sweep) => h("tr", {"data-id": sweep.id},
        h("td", {}, h("a", {href: `/sweep/${sweep.id}`, "data-value": sweep.id}, sweep.id.slice(0, 8))), h("td", {title: sweep.name}, sweep.name), h("td", {class: sweep.damaged ? "error" : null, title: sweep.damaged, "data-value": sweep.state}, sweepText(sweep) + (sweep.damaged ? " (damaged)" : "")),
        h("td", {}, sweep.method), h("td", {title: sweep.metric}, `${sweep.goal} ${sweep.metric}`), h("td", {}, counts(sweep.jobs)),
        timeCell(sweep.created_ms))), "sweeps"));
    renew(jobs, answer.jobs.length === 0 ? h("p", {class: "quiet"}, "none") :
      table(["job", "name", "state", numberHead("objective"), numberHead("progress"), "agent", "reason"], answer.jobs.map(jobRow), "jobs"));
  };
  const showActivity = ({times, waiting, active, ended, failed, every_ms, demand: needs, damaged}) => {
    const steps = times.map((each) => each / 1000);
    charts.show("jobs that wait and run", [{name: "waiting", steps, values: waiting}, {name: "active", steps, values: active}], {x: "time"});
    charts.show("jobs that end a minute", [{name: "ended", steps, values: ended.map((count) => (count === null ? null : count * 60000 / every_ms))},
      {name: "of these failed", steps, values: failed.map((count) => (count === null ? null : count * 60000 / every_ms))}], {x: "time"});
    renew(demand, ...damaged.map((text) => h("p", {class: "error"}, `damaged: ${text}`)), ...(needs.length === 0 ? [] : [h("h2", {}, "What waits"), table([numberHead("CPUs of a job"), numberHead("GPUs of a job"), numberHead("jobs that wait")],
      needs.map((need) => h("tr", {}, numberCell(need.cpus), numberCell(need.gpus), numberCell(need.jobs))), "demand")]));
  };
  let stop = () => {};
  const restart = () => {
    stop();
    stop = follow({"/api/queue": showQueue, [`/api/activity?minutes=${minutes()}`]: showActivity});
  };
  restart();
  return () => stop();
}

const USED = {cpus: "CPUs", gpus: "GPUs"};

export function agentsView(main) {
  const place = h("div");
  main.replaceChildren(h("h1", {}, "Agents"), place);
  const use = (agent, what) => h("td", {class: "number", "data-value": `${agent.used[what]} of ${agent[what] ?? "unknown"}`}, !agent[what] ? "–" : [`${agent.used[what]} of ${agent[what]} `,
    h("meter", {min: 0, max: agent[what], value: agent.used[what], "aria-label": `${USED[what]} in use: ${agent.used[what]} of ${agent[what]}`})]);
  return follow({"/api/agents": ({agents, now_ms: now}) => {
    const total = (what) => [agents.reduce((sum, agent) => sum + agent.used[what], 0), agents.reduce((sum, agent) => sum + agent[what], 0)];
    const row = (agent) => {
      const quiet = agent.seen_ms === null ? null : Math.max(0, now - agent.seen_ms) / 1000, trouble = agent.unreadable ?? agent.trouble;
      return h("tr", {"data-agent": agent.name}, h("td", {title: agent.name}, agent.name), h("td", {}, agent.host), use(agent, "cpus"), use(agent, "gpus"),
        h("td", {"data-value": agent.running.map((job) => job.id).join(" ")}, agent.running.length === 0 ? "–" : agent.running.slice(0, 4).flatMap((job, i) => [i > 0 ? " " : "", jobLink(job)]), agent.running.length > 4 ? ` and ${agent.running.length - 4} more` : ""),
        h("td", {class: !agent.heard ? "number error" : "number", "data-value": quiet ?? ""}, duration(quiet)),
        h("td", {class: trouble ? "error" : "", title: trouble}, trouble || "–"), timeCell(agent.started_ms), h("td", {}, agent.version));
    };
    renew(place, ...(agents.length === 0 ? [h("p", {class: "quiet"}, "none was heard of; foretime agent starts one")] :
      [tiles([["agents", agents.length], ["CPUs in use", total("cpus").join(" of ")], ["GPUs in use", total("gpus").join(" of ")], ["claim nothing", agents.filter((agent) => agent.trouble).length], ["silent", agents.filter((agent) => !agent.heard).length]]),
        table(["agent", "host", numberHead("CPUs in use"), numberHead("GPUs in use"), "jobs", numberHead("silent for"), "claims nothing because", "started", "version"], agents.map(row), "agents")]));
  }});
}
