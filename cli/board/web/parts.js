// What several views are made of.
import {csvField, download, duration, fileName, h, numberCell, onAction, short, stateCell, time} from "./dom.js";

export const STATES = ["active", "delayed", "waiting", "held", "blocked", "succeeded", "failed", "cancelled", "dead"];
export const tiles = (pairs) => h("ul", {class: "tiles"}, pairs.map(([name, value]) => h("li", {}, h("b", {"data-name": name}, value), h("span", {}, name))));

/** Rows below their heads. `save`: whether a button saves what they show as CSV, with whole numbers. */
export function table(heads, rows, label, {save = true} = {}) {
  const found = h("table", {}, h("thead", {}, h("tr", {}, heads.map((head) => (head instanceof Node ? head : h("th", {scope: "col"}, head))))), h("tbody", {}, rows));
  return h("div", {class: "table"}, h("div", {class: "scroll", tabindex: 0, role: "region", "aria-label": label}, found), save && rows.length > 0 ? h("p", {class: "under"},
    h("button", {class: "plain", type: "button", "aria-label": `save ${label} as CSV`, onclick: () => saveRows(label, [...found.rows].map((row) => [...row.cells].map(valueOf)))}, "CSV")) : null);
}
const valueOf = (cell) => (cell.dataset.value ?? cell.querySelector("[data-value]")?.dataset.value ?? cell.textContent).replace(/^–$/, "");
/** What the server could not read of the answers that are shown; the rest of them is there. */
export function damageList(answers) {
  const messages = answers.flatMap((answer) => answer.damaged ?? []);
  return messages.length === 0 ? "" : h("ul", {class: "plain error", "aria-label": "damaged files"}, messages.map((message) => h("li", {}, message)));
}
export const saveRows = (name, rows) => download(fileName(name, ".csv"), "text/csv", rows.map((row) => row.map(csvField).join(",") + "\n").join(""));
export const counts = (jobs) => STATES.filter((state) => jobs[state] > 0).map((state) => `${jobs[state]} ${state}`).join(", ") || "none";
/** Its state, and "done" where none of its jobs is left to run. */
export const sweepText = (sweep) => (sweep.state === "running" && ["active", "delayed", "waiting", "held", "blocked"].every((state) => !sweep.jobs[state]) ? "done" : sweep.state);
export const percent = (job) => (job.total_steps > 0 ? `${Math.floor(100 * Math.min(1, job.step / job.total_steps))} %` : "–");
export const jobLink = (job, text) => h("a", {href: `/job/${job.id}`, "data-value": job.id}, text ?? job.id.slice(0, 8));
export const numberHead = (text) => h("th", {scope: "col", class: "number"}, text);

export function jobRow(job) {
  return h("tr", {"data-id": job.id}, h("td", {}, jobLink(job)), h("td", {title: job.name}, job.name || "–"), stateCell(job),
    numberCell(job.objective), h("td", {class: "number"}, percent(job)), h("td", {title: job.agent}, job.agent || "–"),
    h("td", {class: job.unreadable ? "error" : null, title: job.unreadable ?? job.reason}, job.unreadable ?? (job.reason || "–")));
}

/** The address keeps what a view is set to, so that it can be shared. */
export function settings() {
  return new URLSearchParams(location.search);
}
export function change(changes) {
  const query = settings();
  for (const [name, value] of Object.entries(changes)) value === "" ? query.delete(name) : query.set(name, value);
  history.replaceState(null, "", `${location.pathname}${query.size > 0 ? "?" + query : ""}`);
}

export function facts(pairs) {
  return h("dl", {}, pairs.filter(([, value]) => value !== "" && value !== null && value !== undefined && value !== "–")
    .flatMap(([name, value]) => [h("dt", {}, name), h("dd", {"data-name": name}, value)]));
}

/**
 * Buttons that change a job, a sweep, or the queue where `id` is "". `names` of cancel, pause, resume, retry, priority.
 * Null where this page may change nothing.
 */
export function actionBar(what, id, names, priority = 0) {
  const does = onAction();
  if (!does) return null;
  const labels = {cancel: "Cancel", pause: "Pause", resume: "Resume", retry: "Retry", priority: "Set priority"};
  const value = h("input", {type: "number", min: -4000, max: 4000, step: 1, value: priority, "aria-label": "priority"});
  return h("div", {class: "tools", role: "group", "aria-label": "actions"}, names.flatMap((name) => [name === "priority" ? value : null,
    h("button", {class: "plain", type: "button", "data-action": name, onclick: () => {
      if (name === "cancel" && !confirm(`Cancel ${what}? Jobs that run end after a checkpoint.`)) return;
      does(name, id, name === "priority" ? {priority: Number(value.value)} : {});
    }}, labels[name])]));
}

export const ended = (job) => ["succeeded", "failed", "cancelled", "dead"].includes(job.state);
export {duration, short, time};
