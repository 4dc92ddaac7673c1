// Elements, numbers and times, and how pages ask the server. What comes from elsewhere is text: nothing here parses HTML.

/** An element; of `attributes`, functions are listeners (onclick) and null, false and undefined are left out. */
export function h(tag, attributes = {}, ...children) {
  // What a link of a report would lead to is not there.
  const dead = answers && tag === "a" && attributes.href?.startsWith("/");
  const element = document.createElement(dead ? "span" : tag);
  if (dead) delete attributes.href;
  set(element, attributes);
  element.append(...children.flat().filter((child) => child !== null && child !== undefined).map(
    (child) => (child instanceof Node ? child : document.createTextNode(String(child)))));
  return element;
}

export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  set(element, attributes);
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
}

/** By what one finds an element again whose place was made anew. */
const nameOf = (element) => element.getAttribute("href") ?? element.dataset.key ?? element.getAttribute("aria-label") ?? (element.title || element.textContent);

/**
 * Replaces what a place shows. What has the focus keeps it, and what was scrolled stays so, where it is still there. A
 * place in which someone types, chooses or selects a text stays as it is. Returns whether it was replaced.
 */
export function renew(place, ...children) {
  const focused = place.contains(document.activeElement) ? document.activeElement : null;
  if (focused && ["INPUT", "SELECT"].includes(focused.tagName)) return false;
  const selection = getSelection();
  if (!selection.isCollapsed && place.contains(selection.anchorNode)) return false;
  const scrolled = [...place.querySelectorAll(".scroll")].map((each) => [each.scrollLeft, each.scrollTop]);
  place.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  place.querySelectorAll(".scroll").forEach((each, i) => { if (scrolled[i]) [each.scrollLeft, each.scrollTop] = scrolled[i]; });
  if (focused) refocus(place, focused);
  return true;
}
export function refocus(place, before) {
  for (const each of place.querySelectorAll(before.tagName)) {
    if (nameOf(each) === nameOf(before)) return each.focus({preventScroll: true});
  }
}

/** Four digits where more tell a reader nothing. */
export function short(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value);
  return String(Number(value.toPrecision(4)));
}

/** A cell with a number in short form; the whole number is its title and its data-value. */
export function numberCell(value) {
  return h("td", {class: "number", title: value ?? "", "data-value": value ?? ""}, short(value));
}

/** A setting as it was written, in short form where it is a number. */
export function settingCell(text) {
  const number = text === undefined || text.trim() === "" ? NaN : Number(text);
  return h("td", {title: text ?? "", "data-value": text ?? ""}, Number.isNaN(number) ? text ?? "–" : short(number));
}

export function stateText(job) {
  if (job.state === "active" && job.cancel_requested) return "cancelling";
  return job.state === "succeeded" && job.stopped ? "stopped" : job.state;
}

export function stateCell(job) {
  const text = stateText(job);
  return h("td", {}, h("span", {class: "state " + text}, text));
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (seconds >= 2 * size) return `${(seconds / size).toFixed(seconds < 10 * size ? 1 : 0)} ${unit}`;
  }
  return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
}

export function time(milliseconds) {
  return milliseconds > 0 ? new Date(milliseconds).toLocaleString("sv-SE") : "–";
}
/** In the reader's zone; in UTC where it is saved. */
export function timeCell(milliseconds) {
  return h("td", {"data-value": milliseconds > 0 ? new Date(milliseconds).toISOString() : ""}, time(milliseconds));
}

/** A small curve of {steps, values}. */
export function spark(series) {
  const points = series ? series.steps.map((step, i) => [step, series.values[i]]).filter(([, value]) => value !== null) : [];
  if (points.length < 2) return h("span", {class: "quiet"}, "–");
  const values = points.map(([, value]) => value), low = Math.min(...values), high = Math.max(...values);
  const [first, last] = [points[0][0], points[points.length - 1][0]];
  const place = ([step, value]) =>
    `${(1 + 88 * (step - first) / (last - first || 1)).toFixed(1)},${(17 - 15 * (value - low) / (high - low || 1)).toFixed(1)}`;
  return svg("svg", {class: "spark", width: 90, height: 18, role: "img", "aria-label": `from ${short(values[0])} to ${short(values[values.length - 1])}`},
    svg("path", {d: "M" + points.map(place).join("L")}));
}

// A report holds the answers to what its page asks; there is no server then.
const stored = document.getElementById("answers");
export const answers = stored ? JSON.parse(stored.textContent) : null;

export function say(text, isTrouble = false) {
  const state = document.getElementById("state");
  state.textContent = text;
  state.classList.toggle("error", isTrouble);
}

/** The token that came behind the # of the address, which browsers send to nobody; kept for this address alone. */
const tokenKept = () => { try { return localStorage.getItem("token") ?? ""; } catch { return ""; } };
function keepToken(text) {
  const token = /(?:^|#token=)([0-9a-f]{64})$/.exec(text.trim());
  if (token) localStorage.setItem("token", token[1]);
  return token !== null;
}

/** A page that may not read asks for the token, in place of what it would show. */
function askToken(message) {
  const field = h("input", {type: "password", autocomplete: "off", "aria-label": "token or address"});
  const form = h("form", {class: "tools", onsubmit: (event) => {
    event.preventDefault();
    if (keepToken(field.value)) location.reload();
    else notice("this is no token: expected 64 digits and letters, or the address that ends with them", true);
  }}, field, h("button", {class: "plain", type: "submit"}, "Open"));
  document.getElementById("main").replaceChildren(h("h1", {}, "This board needs its token"), h("p", {}, `${message[0].toUpperCase()}${message.slice(1)}, or paste it here.`), form);
  say("");
  field.focus();
}

/** Asks the server, as who has the token. Throws Error with the server's message. */
export async function ask(path, options = {}) {
  const response = await fetch(path, {...options, headers: {...options.headers, "Authorization": `Bearer ${tokenKept()}`}});
  if (response.ok) return response;
  const text = await response.text();
  let message = response.statusText;
  try { message = JSON.parse(text).error.message; } catch { /* it is no answer of a board */ }
  const error = new Error(message);
  error.status = response.status;
  throw error;
}

/** Calls `take` with the kind and the data of each event of a stream, until it ends. */
async function eachEvent(stream, take) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (let {value, done} = await reader.read(); !done; {value, done} = await reader.read()) {
    const events = (text + value).split("\n\n");
    text = events.pop();
    for (const event of events) {
      const field = (name) => event.split("\n").find((line) => line.startsWith(name + ": "))?.slice(name.length + 2);
      if (field("data") !== undefined) take(field("event") ?? "message", field("data"));
    }
  }
}

/**
 * Calls a function with what its path answers, now and whenever that changes: `shows` is {path: function}. One
 * connection for all, because browsers open few; none while nobody looks. Returns what ends it.
 */
export function follow(shows) {
  const paths = Object.keys(shows);
  if (answers) {
    for (const path of paths) if (answers[path]) shows[path](answers[path]);
    return () => {};
  }
  let open = null;  // what ends the stream
  const take = (kind, data) => {
    const {path, answer} = JSON.parse(data);
    if (kind === "trouble") return say(answer.error.message, true);
    say("live");
    shows[path]?.(answer);
  };
  const run = async () => {
    const own = open = new AbortController();
    while (open === own) {
      try {
        const response = await ask("/api/live?paths=" + encodeURIComponent(paths.join("\n")), {signal: own.signal});
        await eachEvent(response.body, (kind, data) => { if (open === own) take(kind, data); });
      } catch (error) {
        if (open !== own) return;
        if (error.status === 401) return askToken(error.message);
        say(error.status ? error.message : "not connected; trying again", true);
      }
      await new Promise((resolve) => { setTimeout(resolve, 2000); });
    }
  };
  const close = () => { open?.abort(); open = null; };
  const look = () => { if (document.hidden) close(); else if (!open) run(); };
  document.addEventListener("visibilitychange", look);
  run();
  return () => { document.removeEventListener("visibilitychange", look); close(); };
}

/** What `path` answers. Throws Error with the server's message. */
export async function get(path) {
  if (answers) {
    if (answers[path]) return answers[path];
    throw new Error("this report has no " + path);
  }
  return (await ask(path)).json();
}

/** Saves what `path` answers as a file. */
export async function downloadFrom(path, name) {
  try {
    saveBlob(name, await (await ask(path)).blob());
  } catch (error) {
    notice(error.message, true);
  }
}

export let board = {actions: false, queue: ""};
/** Learns what this board allows. Returns whether this page may read. */
export async function begin() {
  if (answers) return true;
  if (location.hash.startsWith("#token=")) {
    keepToken(location.hash);
    history.replaceState(null, "", location.pathname + location.search);
  }
  try {
    board = await get("/api/board");
  } catch (error) {
    if (error.status === 401) askToken(error.message);
    return error.status !== 401;
  }
  return true;
}

/** What does an action (name, id, more), or null where this page may not. */
export function onAction() {
  if (!board.actions || !tokenKept()) return null;
  return async (action, id, more = {}) => {
    try {
      const response = await ask("/api/act", {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify({action, id, ...more})});
      const json = await response.json();
      notice([json.text, ...json.warnings].join("; "));
    } catch (error) {
      notice(error.message, true);
    }
  };
}

/** A line that stays for a while. */
export function notice(text, isTrouble = false) {
  const place = document.getElementById("notice");
  place.textContent = text;
  place.classList.toggle("error", isTrouble);
  place.hidden = false;
  clearTimeout(place.timer);
  place.timer = setTimeout(() => { place.hidden = true; }, 8000);
}

function saveBlob(name, blob) {
  const address = URL.createObjectURL(blob);
  h("a", {href: address, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

/** Saves text as a file. */
export const download = (name, type, text) => saveBlob(name, new Blob([text], {type}));

export const fileName = (title, suffix) => title.replace(/[^\w-]+/g, "_").slice(0, 80) + suffix;
export const csvField = (value) => {
  const text = String(value ?? "");
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}
