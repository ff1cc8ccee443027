// The output of a job: the end of it at once, then every new line; searched as one types, or from its beginning.
"use strict";
(() => {
  const TAIL = 1000, MOST = 4000, MOST_FOUND = 2000, AGAIN = 1500;
  const place = document.querySelector("[data-logs]");
  if (!place) return;
  const lines = document.getElementById("log-lines"), search = document.getElementById("log-search");
  const state = document.getElementById("log-state"), replica = document.getElementById("log-replica");
  let kept = [], stream = null, whole = false;
  let first = null, last = null, had = new Map();  // when the first and the newest line were written; what the newest instant held


  const name = (line) => (typeof line.replica === "string" ? line.replica : `${line.replica.role}-${line.replica.index}`);
  const key = (line) => `${name(line)} ${line.text}`;
  const wanted = (line) => !search.value || line.text.toLowerCase().includes(search.value.toLowerCase());

  function row(line) {
    const element = document.createElement("div"), from = document.createElement("span");
    from.className = "from";
    from.textContent = `${name(line)} `;
    element.append(from);
    if (line.stream === "stderr") element.className = "err";
    const word = search.value.toLowerCase();
    let rest = line.text;
    while (word) {
      const found = rest.toLowerCase().indexOf(word);
      if (found < 0) break;
      const mark = document.createElement("mark");
      mark.textContent = rest.slice(found, found + word.length);
      element.append(rest.slice(0, found), mark);
      rest = rest.slice(found + word.length);
    }
    element.append(rest);
    return element;
  }

  function tell() {
    const shown = lines.childElementCount;
    if (!shown && !search.value) { state.textContent = "Nothing has been written yet."; return; }
    state.textContent = search.value ? `${shown} lines found${whole ? " in the whole log" : ` in the last ${kept.length}`}` : `${shown} lines`;
  }

  function add(fresh) {
    const atEnd = lines.scrollHeight - lines.scrollTop - lines.clientHeight < 40;
    const shown = fresh.filter(wanted).slice(-MOST);
    if (shown.length) lines.append(...shown.map(row));
    while (lines.childElementCount > MOST) lines.firstElementChild.remove();
    if (atEnd) lines.scrollTop = lines.scrollHeight;
    tell();
  }

  function show() {
    lines.replaceChildren(...kept.filter(wanted).map(row));
    lines.scrollTop = lines.scrollHeight;
    tell();
  }

  function query(extra) {
    const [role, index] = replica.value.split(" ");
    const parts = new URLSearchParams(extra);
    if (role) { parts.set("role", role); parts.set("index", index); }
    return `${place.dataset.logs}?${parts}`;
  }

  async function read(address, signal, take) {
    const answer = await fetch(address, { signal, credentials: "same-origin" });
    if (!answer.ok) return false;
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return true;
      const found = (rest + value).split("\n");
      rest = found.pop();
      const fresh = found.filter(Boolean).map((text) => JSON.parse(text)).filter((line) => !("error" in line));
      if (fresh.length && take(fresh) === false) return true;
    }
  }

  function remember(line) {
    first ??= line.at;
    if (last === null || line.at > last) { last = line.at; had = new Map(); }
    if (line.at === last) had.set(key(line), (had.get(key(line)) ?? 0) + 1);
  }

  // The lines of the last instant come again after a pause, each as often as it was written: a program may well write
  // the same line many times in one instant, and those are not repeats. Where the tail began within that instant, what
  // was before it would come too.
  function repeats() {
    const since = last, left = new Map(had);
    const count = [...left.values()].reduce((sum, each) => sum + each, 0);
    const cut = first === last && count >= TAIL;
    return (line) => {
      if (since === null || line.at !== since) return false;
      const times = left.get(key(line)) ?? 0;
      left.set(key(line), times - 1);
      return cut || times > 0;
    };
  }

  async function follow() {
    stream?.abort();
    const mine = (stream = new AbortController());
    whole = false;
    while (!mine.signal.aborted) {
      if (!document.hidden) {
        const extra = last === null ? { tail: TAIL, follow: true } : { since: last, tail: MOST, follow: true };
        const repeated = repeats();
        try {
          await read(query(extra), mine.signal, (found) => {
            const fresh = found.filter((line) => !repeated(line));
            if (!fresh.length) return;
            kept = kept.concat(fresh).slice(-MOST);
            fresh.forEach(remember);
            add(fresh);
          });
        } catch { /* it was let go, or the service is away */ }
      }
      await new Promise((done) => setTimeout(done, AGAIN));
    }
  }

  function again() { kept = []; first = last = null; had = new Map(); lines.replaceChildren(); follow(); }

  async function everything() {
    if (!search.value) { search.focus(); return; }
    stream?.abort();
    const mine = (stream = new AbortController());
    whole = true;
    kept = [];
    lines.replaceChildren();
    state.textContent = "searching…";
    try {
      await read(query({}), mine.signal, (found) => {
        const fresh = found.filter(wanted);
        kept = kept.concat(fresh).slice(0, MOST_FOUND);
        if (fresh.length) add(fresh);
        return kept.length < MOST_FOUND;
      });
    } catch { /* it was let go */ }
    tell();
  }

  search.addEventListener("input", () => (whole ? again() : show()));
  replica.addEventListener("change", again);
  document.getElementById("log-whole").addEventListener("click", everything);
  document.addEventListener("visibilitychange", () => { if (document.hidden && !whole) { stream?.abort(); } else if (!whole) follow(); });
  tell();
  follow();
})();
