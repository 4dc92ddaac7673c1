// Elements, numbers and times. Everything that comes from elsewhere is text: nothing here parses HTML.

/** An element; of `attributes`, functions are listeners (onclick) and null, false and undefined are left out. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  set(element, attributes);
  element.append(...children.flat().filter((child) => child !== null && child !== undefined).map(
    (child) => (child instanceof Node ? child : document.createTextNode(String(child)))));
  return element;
}

export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  set(element, attributes);
  element.append(...children);
  return element;
}

function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
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

/** Calls `show` with what `path` answers, now and whenever it changes. Returns what ends it. */
export function follow(path, show) {
  const state = document.getElementById("state");
  const source = new EventSource("/api/live?path=" + encodeURIComponent(path));
  source.onmessage = (event) => {
    state.textContent = "live";
    show(JSON.parse(event.data));
  };
  source.addEventListener("trouble", (event) => { state.textContent = JSON.parse(event.data).error.message; });
  source.onerror = async () => {
    state.textContent = "not connected; trying again";
    if (source.readyState !== EventSource.CLOSED) return;
    // What is no stream says why.
    try {
      await get(path);
    } catch (error) {
      state.textContent = error.message;
    }
  };
  return () => source.close();
}

/** What `path` answers. Throws Error with the server's message. */
export async function get(path) {
  const response = await fetch(path);
  const json = await response.json();
  if (!response.ok) throw new Error(json.error?.message ?? response.statusText);
  return json;
}

/** Saves text as a file. */
export function download(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], {type}));
  h("a", {href: address, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
