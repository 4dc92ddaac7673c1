// Addresses and the views that they show. Links inside of the board change the view without loading the page anew.
import {agentsView, jobView, queueView, runsView, sweepView} from "./views.js";

const VIEWS = [
  [/^\/$/, queueView],
  [/^\/agents$/, agentsView],
  [/^\/sweep\/([\w-]+)$/, sweepView],
  [/^\/job\/([\w-]+)$/, jobView],
  [/^\/runs$/, runsView],
];
const main = document.getElementById("main");
let leave = () => {};

function show() {
  leave();
  document.title = "Foretime";
  document.getElementById("state").textContent = "";
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === location.pathname && !link.classList.contains("name")) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  for (const [address, view] of VIEWS) {
    const match = address.exec(location.pathname);
    if (!match) continue;
    leave = view(main, match[1]);
    return;
  }
  leave = () => {};
  main.textContent = "Nothing is at this address.";
}

addEventListener("click", (event) => {
  const link = event.target.closest?.("a");
  if (!link || link.origin !== location.origin || link.hasAttribute("download") || link.getAttribute("href").startsWith("#") || event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  history.pushState(null, "", link.href);
  show();
  main.focus();
});
addEventListener("popstate", show);
show();
