// One job: curves, attempts, log, settings.
import {chartGrid} from "./charts.js";
import {download, fileName, follow, h, numberCell, renew, settingCell, short, stateText, timeCell} from "./dom.js";
import {actionBar, duration, ended, facts, numberHead, table, time} from "./parts.js";
import {attemptsOf, timeline} from "./plots.js";

const FIRST = ["loss", "learning_rate", "candidates_per_second", "memory_mib", "cpu_cores", "gpu_percent", "gpu_memory_mib"];

function artifactRows(artifacts) {
  return Object.entries(artifacts).filter(([role]) => role !== "trouble").map(([role, each]) => h("tr", {}, h("td", {}, role), h("td", {}, each.store),
    numberCell(each.step), h("td", {class: "number", "data-value": each.bytes}, `${(each.bytes / 1048576).toFixed(1)} MiB`), h("td", {title: each.path}, each.path || each.name)));
}

export function jobView(main, id) {
  const head = h("div"), after = h("div"), actions = h("div"), attempts = h("div"), charts = chartGrid(), more = chartGrid(), log = h("pre", {tabindex: 0, role: "log", "aria-live": "off", "aria-label": "log"}), text = h("pre", {tabindex: 0, "aria-label": "settings"});
  const rest = h("details", {hidden: true}, h("summary", {}, "More measurements"), more.element), jump = h("label", {}, h("input", {type: "checkbox", checked: true}), " follow");
  const save = (what, suffix, from) => h("button", {class: "plain", type: "button", "aria-label": `save the ${what}`, onclick: () => download(fileName(`${id.slice(0, 8)} ${what}`, suffix), "text/plain", from.textContent)}, "Save");
  main.replaceChildren(head, actions, charts.element, rest, after, attempts, h("h2", {}, "Log ", h("small", {}, jump, " ", save("log", ".log", log))), log,
    h("h2", {}, "Settings ", h("small", {}, save("settings", ".yaml", text))), text);
  let before = "", seen = 0;
  const showJob = (job) => {
    document.title = `${job.name || job.id} – Foretime`;
    const base = Object.entries(job.parameters), stored = artifactRows(job.artifacts);
    renew(head, h("h1", {}, job.name || job.id), h("p", {}, h("span", {class: "state " + stateText(job)}, stateText(job)), " ", h("span", {class: "quiet"}, job.reason)),
      job.unreadable ? h("p", {class: "error"}, `damaged: ${job.unreadable}`) : "",
      job.error ? h("pre", {class: "error", tabindex: 0, "aria-label": "error"}, job.error) : "",
      facts([["job", job.id], ["kind", job.kind], ["sweep", job.sweep ? h("a", {href: `/sweep/${job.sweep}`}, job.sweep) : ""], ["trial", job.trial],
        ["attempt", `${job.attempt} of ${job.max_attempts}`], ["agent", job.agent], ["progress", job.total_steps > 0 ? `step ${job.step} of ${job.total_steps}` : ""],
        ["loss", short(job.loss)], ["remaining", job.eta_seconds === null ? "" : duration(job.eta_seconds)], [job.metric, job.objective === null ? "" : h("span", {title: job.objective, "data-value": job.objective}, short(job.objective))],
        ["best", job.best_objective === null || job.best_objective === job.objective ? "" : h("span", {title: job.best_objective, "data-value": job.best_objective}, short(job.best_objective))],
        ["priority", job.priority === 0 ? "" : job.priority], ["submitted", time(job.submitted_ms)], ["claimed", time(job.claimed_ms)], ["finished", time(job.finished_ms)], ["took", job.seconds > 0 ? duration(job.seconds) : ""],
        ["checkpoint", job.checkpoint], ["history", job.history_source]]),
      base.length > 0 ? h("h2", {}, "What differs from the sweep's base") : "",
      base.length > 0 ? table(["setting", "value"], base.map(([name, value]) => h("tr", {}, h("td", {}, name), settingCell(value))), "parameters") : "");
    renew(after,
      Object.keys(job.metrics).length > 0 ? h("h2", {}, "Metrics") : "",
      Object.keys(job.metrics).length > 0 ? table(["metric", numberHead("value")], Object.entries(job.metrics).map(([name, value]) => h("tr", {}, h("td", {}, name), numberCell(value))), "metrics") : "",
      stored.length > 0 ? h("h2", {}, "Artifacts") : "", job.artifacts.trouble ? h("p", {class: "error"}, job.artifacts.trouble) : "",
      stored.length > 0 ? table(["what", "store", numberHead("step"), numberHead("size"), "path"], stored, "artifacts") : "");
    const now = `${job.state} ${job.cancel_requested} ${job.priority}`;
    if (now !== before && renew(actions, actionBar(`job ${job.id}`, job.id, ended(job) ? (job.state === "succeeded" ? [] : ["retry"]) : ["cancel", "priority"], job.priority))) before = now;
    if (text.textContent !== job.settings) text.textContent = job.settings;
    for (const name of [job.metric, ...FIRST]) if (job.history[name]) charts.show(name, [{name, ...job.history[name]}]);
    for (const [name, series] of Object.entries(job.history)) {
      if (name === job.metric || FIRST.includes(name)) continue;
      rest.hidden = false;
      more.show(name, [{name, ...series}]);
    }
    const found = attemptsOf(job.events);
    renew(attempts, ...(found.length === 0 ? [] : [h("h2", {}, "Attempts"), timeline("Attempts", found, Math.max(job.updated_ms, job.finished_ms)),
      table(["attempt", "from", "to", "agent", "how it ended", "then"], found.map((each) => h("tr", {}, numberCell(each.number), timeCell(each.from), timeCell(each.to ?? 0), h("td", {title: each.agent}, each.agent),
        h("td", {title: each.end ?? ""}, each.end ?? "runs"), h("td", {}, each.then ? h("span", {class: "state " + each.then}, each.then) : "–"))), "attempts")]));
  };
  const showLog = ({lines, total}) => {
    // What is new comes behind the rest, so that a selected text stays; now and then what is old goes.
    const fresh = total - seen, shown = log.childNodes.length;
    if (seen === 0 || fresh < 0 || fresh > lines.length || shown > 4 * lines.length + 100)
      log.replaceChildren(total > lines.length ? `… ${total - lines.length} lines before these are in output.log\n` : "", lines.map((line) => line + "\n").join(""));
    else if (fresh > 0) log.append(lines.slice(-fresh).map((line) => line + "\n").join(""));
    seen = total;
    if (jump.firstChild.checked) log.scrollTop = log.scrollHeight;
  };
  const query = encodeURIComponent(id);
  return follow({[`/api/job?id=${query}`]: showJob, [`/api/log?id=${query}`]: showLog});
}
