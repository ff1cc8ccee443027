// What every page needs: times in words, a tick that has the live part brought up to date, and word of a lost connection.
"use strict";
(() => {
  const TICK = 700;

  function span(seconds) {
    if (seconds < 10) return `${Math.max(0, Math.round(seconds * 10) / 10)} s`;
    const units = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];
    const parts = [];
    let rest = seconds;
    for (const [unit, size] of units) {
      const count = Math.floor(rest / size);
      rest -= count * size;
      if (count) parts.push(`${count} ${unit}`);
      else if (parts.length) break;
      if (parts.length === 2) break;
    }
    return parts.join(" ");
  }

  function ago(seconds) {
    if (seconds <= -1) return `in ${span(-seconds)}`;
    if (seconds < 1) return "now";
    for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]])
      if (seconds >= 2 * size || unit === "s") return `${Math.floor(seconds / size)} ${unit} ago`;
    return "now";
  }

  function times() {
    const now = Date.now();
    for (const each of document.querySelectorAll("time[data-ago], time[data-since]")) {
      const at = Date.parse(each.dateTime);
      if (Number.isNaN(at)) continue;
      if (!each.title) each.title = each.textContent;
      const until = each.dataset.until ? Date.parse(each.dataset.until) : now;
      const text = "ago" in each.dataset ? ago((now - at) / 1000) : span((until - at) / 1000);
      if (each.textContent !== text) each.textContent = text;
    }
  }

  function lost(is) {
    const note = document.getElementById("lost");
    if (note) note.hidden = !is;
  }

  const asking = () => document.querySelector("#live details.asking[open]");

  function key(details) {
    const section = details.closest("section, #live");
    return `${section.getAttribute("aria-labelledby")}/${[...section.querySelectorAll("details")].indexOf(details)}`;
  }

  let opened = [];
  document.addEventListener("htmx:before:swap", (swap) => {
    // What was asked for before a sheet was opened would close it under somebody's hand.
    if (asking()) swap.preventDefault();
    else opened = [...document.querySelectorAll("#live details[open]")].map(key);
  });
  document.addEventListener("htmx:after:swap", () => {
    for (const each of document.querySelectorAll("#live details")) if (opened.includes(key(each))) each.open = true;
    times();
  });
  document.addEventListener("htmx:after:request", () => lost(false));
  document.addEventListener("htmx:error", () => lost(true));
  times();
  setInterval(times, 1000);
  setInterval(() => {
    // A sheet that asks something, or a list of choices, is not taken away from whoever reads it.
    if (!document.hidden && !asking())
      document.body.dispatchEvent(new CustomEvent("tick"));
  }, TICK);
})();
