// Addresses and the views that they show. Links inside of the board change the view without loading the page anew.
import {answers, begin, board, downloadFrom, isDark} from "./dom.js";
import {experimentView} from "./experiment_view.js";
import {jobView} from "./job_view.js";
import {agentsView, queueView} from "./queue_view.js";
import {runsView} from "./runs_view.js";
import {sweepView} from "./sweep_view.js";

const VIEWS = [
  [/^\/$/, queueView],
  [/^\/agents$/, agentsView],
  [/^\/sweep\/([\w-]+)$/, sweepView],
  [/^\/job\/([\w-]+)$/, jobView],
  [/^\/runs$/, runsView],
  [/^\/experiment$/, experimentView],
];
const main = document.getElementById("main");
let leave = () => {};

function showView() {
  leave();
  leave = () => {};
  if (!answers) document.title = "Foretime";  // a report has the name of what it shows
  document.getElementById("state").textContent = "";
  if (!answers && !board.queue && location.pathname === "/") history.replaceState(null, "", "/runs" + location.search);
  const path = answers ? answers.view : location.pathname;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === path && !link.classList.contains("name")) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  for (const [address, view] of VIEWS) {
    const match = address.exec(path);
    if (!match) continue;
    leave = view(main, match[1]);
    return;
  }
  main.textContent = "Nothing is at this address.";
}

addEventListener("click", (event) => {
  const link = event.target.closest?.("a");
  if (answers || !link || link.origin !== location.origin) return;
  if (link.pathname.startsWith("/api/")) {  // a link by itself would not say who asks
    event.preventDefault();
    downloadFrom(link.pathname + link.search, link.download);
    return;
  }
  if (link.hasAttribute("download") || link.getAttribute("href").startsWith("#") || event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  history.pushState(null, "", link.href);
  showView();
  main.focus();
});
// "/" goes to the search, as elsewhere.
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || ["INPUT", "SELECT", "TEXTAREA"].includes(document.activeElement.tagName)) return;
  const search = document.querySelector("input[type=search]");
  if (!search) return;
  event.preventDefault();
  search.focus();
});
const useTheme = (name) => { if (name) document.documentElement.dataset.theme = name; };
const kept = (name) => { try { return localStorage.getItem(name); } catch { return null; } };
useTheme(kept("theme"));
document.getElementById("theme").addEventListener("click", () => {
  useTheme(isDark() ? "light" : "dark");
  try { localStorage.setItem("theme", document.documentElement.dataset.theme); } catch { /* a file has no storage */ }
  showView();
});
addEventListener("popstate", showView);
addEventListener("hashchange", () => { if (location.hash.startsWith("#token=")) location.reload(); });
begin().then((mayRead) => {
  if (!mayRead) return;
  // Run directories alone: there is no queue to show.
  if (!answers && !board.queue) for (const link of document.querySelectorAll("nav a")) link.hidden = link.getAttribute("href") === "/agents" || link.textContent === "Queue";
  showView();
});
