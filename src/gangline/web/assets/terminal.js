// A terminal: enough of a VT100 with colours for shells, pagers, editors and top. What the shell writes is text, never markup.
"use strict";
(() => {
  const place = document.getElementById("terminal");
  if (!place) return;
  const screen = document.getElementById("terminal-screen"), keys = document.getElementById("terminal-keys");
  const state = document.getElementById("terminal-state");
  const PAST = 2000, LEAST = 20;
  const plain = { fore: null, back: null, bold: false, inverse: false };
  const line = () => new Array(width).fill(null);
  let width = 80, height = 24, rows = [], past = [], x = 0, y = 0, look = plain, top = 0, bottom = 23;
  let kept = null, saved = [0, 0], hidden = false, applicationKeys = false, drawing = false;

  function fit() {
    const probe = document.createElement("div"), text = document.createElement("span");
    text.textContent = "0".repeat(50);
    probe.append(text);
    screen.append(probe);
    const box = { width: text.getBoundingClientRect().width, height: probe.getBoundingClientRect().height };
    probe.remove();
    const cell = box.width / 50 || 8, tall = box.height || 17;
    resize(Math.max(LEAST, Math.floor((screen.clientWidth - 16) / cell)), Math.max(5, Math.floor((screen.clientHeight - 16) / tall)));
  }

  function resize(wide, tall) {
    if (rows.length && wide === width && tall === height) return;
    width = wide;
    while (rows.length > tall) { if (y < rows.length - 1) rows.pop(); else { past.push(rows.shift()); y -= 1; } }
    while (rows.length < tall) rows.push(line());
    height = tall;
    for (const row of rows) { while (row.length < wide) row.push(null); row.length = wide; }
    [x, y, top, bottom] = [Math.min(x, wide - 1), Math.max(0, Math.min(y, tall - 1)), 0, tall - 1];
    if (socket?.readyState === WebSocket.OPEN) socket.send(`${width} ${height}`);
    draw();
  }

  function scroll(up) {
    if (up) {
      const [gone] = rows.splice(top, 1);
      rows.splice(bottom, 0, line());
      if (!top && !kept) { past.push(gone); if (past.length > PAST) past.splice(0, past.length - PAST); }
    } else { rows.splice(bottom, 1); rows.splice(top, 0, line()); }
  }

  function feed() { if (y === bottom) scroll(true); else if (y < height - 1) y += 1; }

  function put(letter) {
    if (x >= width) { x = 0; feed(); }
    rows[y][x] = [letter, look];
    x += 1;
  }

  function wipe(row, from, to) { for (let at = from; at < to; at++) rows[row][at] = null; }

  const ACTS = {
    A: ([n]) => { y = Math.max(y < top ? 0 : top, y - (n || 1)); }, B: ([n]) => { y = Math.min(y > bottom ? height - 1 : bottom, y + (n || 1)); },
    C: ([n]) => { x = Math.min(width - 1, x + (n || 1)); }, D: ([n]) => { x = Math.max(0, Math.min(x, width - 1) - (n || 1)); },
    G: ([n]) => { x = Math.min(width, n || 1) - 1; }, d: ([n]) => { y = Math.min(height, n || 1) - 1; },
    H: ([row, column]) => { y = Math.min(height, row || 1) - 1; x = Math.min(width, column || 1) - 1; },
    J: ([n]) => {
      if (n === 1) { for (let row = 0; row < y; row++) wipe(row, 0, width); wipe(y, 0, Math.min(x + 1, width)); return; }
      if (n === 3) past = [];
      wipe(y, n ? 0 : x, width);
      for (let row = n ? 0 : y + 1; row < height; row++) wipe(row, 0, width);
    },
    K: ([n]) => wipe(y, n ? 0 : x, n === 1 ? Math.min(x + 1, width) : width),
    L: ([n]) => { if (y >= top && y <= bottom) for (let i = Math.min(n || 1, height); i; i--) { rows.splice(bottom, 1); rows.splice(y, 0, line()); } },
    M: ([n]) => { if (y >= top && y <= bottom) for (let i = Math.min(n || 1, height); i; i--) { rows.splice(y, 1); rows.splice(bottom, 0, line()); } },
    P: ([n]) => { const count = Math.min(n || 1, width - x); rows[y].splice(x, count); rows[y].push(...new Array(count).fill(null)); },
    "@": ([n]) => { const count = Math.min(n || 1, width - x); rows[y].splice(x, 0, ...new Array(count).fill(null)); rows[y].length = width; },
    X: ([n]) => wipe(y, x, Math.min(width, x + (n || 1))),
    S: ([n]) => { for (let i = Math.min(n || 1, height); i; i--) scroll(true); }, T: ([n]) => { for (let i = Math.min(n || 1, height); i; i--) scroll(false); },
    r: ([first, last]) => { [top, bottom] = [Math.min(first || 1, height) - 1, Math.min(last || height, height) - 1]; if (top >= bottom) [top, bottom] = [0, height - 1]; x = y = 0; },
    s: () => { saved = [x, y]; }, u: () => { [x, y] = [Math.min(saved[0], width - 1), Math.min(saved[1], height - 1)]; },
    n: ([n]) => { if (n === 6) send(`\x1b[${y + 1};${Math.min(x, width - 1) + 1}R`); }, c: () => send("\x1b[?1;2c"), m: colour,
  };
  ACTS.f = ACTS.H;

  function colour(codes) {
    for (let at = 0; at < (codes.length || 1); at++) {
      const code = codes[at] || 0;
      if (code === 0) look = plain;
      else if (code === 1) look = { ...look, bold: true };
      else if (code === 22) look = { ...look, bold: false };
      else if (code === 7 || code === 27) look = { ...look, inverse: code === 7 };
      else if ((code >= 30 && code < 38) || (code >= 90 && code < 98)) look = { ...look, fore: code < 90 ? code - 30 : code - 82 };
      else if ((code >= 40 && code < 48) || (code >= 100 && code < 108)) look = { ...look, back: code < 100 ? code - 40 : code - 92 };
      else if (code === 39) look = { ...look, fore: null };
      else if (code === 49) look = { ...look, back: null };
      else if (code === 38 || code === 48) {
        const found = codes[at + 1] === 5 && codes[at + 2] < 16 ? codes[at + 2] : null;
        look = { ...look, [code === 38 ? "fore" : "back"]: found };
        at += codes[at + 1] === 5 ? 2 : 4;
      }
    }
  }

  function mode(codes, on) {
    for (const code of codes) {
      if (code === 25) hidden = !on;
      else if (code === 1) applicationKeys = on;
      else if ((code === 1049 || code === 47 || code === 1047) && on && !kept) { kept = [rows, x, y]; rows = Array.from({ length: height }, line); }
      else if ((code === 1049 || code === 47 || code === 1047) && !on && kept) {
        [rows, x, y] = kept;
        kept = null;
        [top, bottom] = [0, height - 1];
        while (rows.length > height) rows.shift();
        while (rows.length < height) rows.push(line());
        for (const row of rows) { while (row.length < width) row.push(null); row.length = width; }
        [x, y] = [Math.min(x, width - 1), Math.min(y, height - 1)];
      }
    }
  }

  const SEQUENCE = /^\x1b(?:\[([?>=]?)([\d;:]*)[ !"$']*([@-~])|[\]P^_][^\x07\x1b]*(?:\x07|\x1b\\)|[()*+#%][\s\S]|([^[\]P^_()*+#%]))/;
  let rest = "";
  function take(text) {
    text = rest + text;
    rest = "";
    for (let at = 0; at < text.length;) {
      const letter = text[at];
      if (letter === "\x1b") {
        const found = SEQUENCE.exec(text.slice(at, at + 4096));
        if (!found) { if (text.length - at < 4096) { rest = text.slice(at); break; } at += 1; continue; }
        at += found[0].length;
        const codes = (found[2] || "").split(/[;:]/).filter((each) => each !== "" || found[2]).map(Number);
        if (found[3] && found[1] === "?" && (found[3] === "h" || found[3] === "l")) mode(codes, found[3] === "h");
        else if (found[3] && !found[1]) ACTS[found[3]]?.(codes);
        else if (found[4] === "M") { if (y === top) scroll(false); else y = Math.max(0, y - 1); }
        else if (found[4] === "7") saved = [x, y];
        else if (found[4] === "8") ACTS.u();
        else if (found[4] === "D" || found[4] === "E") { if (found[4] === "E") x = 0; feed(); }
        else if (found[4] === "c") { past = []; rows = Array.from({ length: height }, line); x = y = 0; look = plain; }
        continue;
      }
      const point = String.fromCodePoint(text.codePointAt(at));
      at += point.length;
      if (letter === "\n" || letter === "\v" || letter === "\f") feed();
      else if (letter === "\r") x = 0;
      else if (letter === "\b") x = Math.max(0, Math.min(x, width - 1) - 1);
      else if (letter === "\t") x = Math.min(width - 1, (Math.floor(x / 8) + 1) * 8);
      else if (letter >= " " && letter !== "\x7f") put(point);
    }
    draw();
  }

  function shown(row, cursor) {
    const element = document.createElement("div");
    let end = row.length;
    while (end > 0 && row[end - 1] === null && end - 1 !== cursor) end -= 1;
    for (let at = 0; at < end;) {
      const [, style] = row[at] ?? [" ", plain];
      let text = "", next = at;
      while (next < end && (row[next]?.[1] ?? plain) === style && (next === at || (next !== cursor && at !== cursor))) { text += row[next]?.[0] ?? " "; next += 1; }
      const span = document.createElement("span");
      span.textContent = text;
      const { fore, back } = style.inverse ? { fore: style.back ?? "ground", back: style.fore ?? "ink" } : style;
      span.className = [fore !== null && `fore-${fore}`, back !== null && `back-${back}`, style.bold && "bold", at === cursor && "cursor"].filter(Boolean).join(" ");
      element.append(span);
      at = next;
    }
    if (!element.hasChildNodes()) element.textContent = "\u00a0";
    return element;
  }

  function draw() {
    if (drawing) return;
    drawing = true;
    requestAnimationFrame(() => {
      drawing = false;
      const atEnd = screen.scrollHeight - screen.scrollTop - screen.clientHeight < 40;
      const above = kept ? [] : past;
      screen.replaceChildren(...above.map((row) => shown(row, -1)), ...rows.map((row, at) => shown(row, at === y && !hidden ? Math.min(x, width - 1) : -1)));
      if (atEnd) screen.scrollTop = screen.scrollHeight;
    });
  }

  const encoder = new TextEncoder(), decoder = new TextDecoder();
  const send = (text) => { if (socket.readyState === WebSocket.OPEN) for (let at = 0; at < text.length; at += 8192) socket.send(encoder.encode(text.slice(at, at + 8192))); };
  const NAMED = { Enter: "\r", Backspace: "\x7f", Tab: "\t", Escape: "\x1b", Delete: "\x1b[3~", Insert: "\x1b[2~", PageUp: "\x1b[5~", PageDown: "\x1b[6~" };
  const ARROWS = { ArrowUp: "A", ArrowDown: "B", ArrowRight: "C", ArrowLeft: "D", Home: "H", End: "F" };

  keys.addEventListener("keydown", (key) => {
    if (key.isComposing || key.metaKey || (key.key === "Tab" && key.shiftKey)) return;
    let text = null;
    if (key.key in ARROWS) text = `\x1b${applicationKeys ? "O" : "["}${ARROWS[key.key]}`;
    else if (key.key in NAMED) text = NAMED[key.key];
    else if (key.ctrlKey && !key.altKey && key.key.length === 1) {
      if (key.key.toLowerCase() === "v" || (key.shiftKey && key.key.toLowerCase() === "c")) return;  // pasting and copying are the browser's
      const code = key.key.toUpperCase().charCodeAt(0);
      if (key.key === " ") text = "\0";
      else if (code >= 64 && code < 96) text = String.fromCharCode(code - 64);
    } else if (key.altKey && !key.ctrlKey && key.key.length === 1) text = `\x1b${key.key}`;
    if (text === null) return;
    key.preventDefault();
    send(text);
  });
  keys.addEventListener("input", (input) => { if (input.isComposing) return; send(keys.value.replace(/\n/g, "\r")); keys.value = ""; });
  keys.addEventListener("compositionend", () => { send(keys.value); keys.value = ""; });
  screen.addEventListener("mouseup", () => { if (!String(getSelection())) keys.focus({ preventScroll: true }); });

  const socket = new WebSocket(place.dataset.terminal.replace(/^/, location.origin.replace(/^http/, "ws")));
  socket.binaryType = "arraybuffer";
  socket.addEventListener("open", () => { state.textContent = ""; socket.send(`${width} ${height}`); keys.focus(); });
  socket.addEventListener("message", (message) => take(decoder.decode(message.data, { stream: true })));
  socket.addEventListener("close", (close) => { state.textContent = `Closed: ${close.reason || "the connection was cut"}.`; keys.disabled = true; });
  fit();
  addEventListener("resize", fit);
})();
