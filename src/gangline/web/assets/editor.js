// Line numbers beside the file, the wrong line marked.
"use strict";
(() => {
  const area = document.getElementById("file");
  if (!area) return;
  const gutter = document.createElement("div"), wrong = Number(area.dataset.line || 0);
  gutter.className = "gutter";
  gutter.setAttribute("aria-hidden", "true");
  area.before(gutter);
  function number() {
    const count = area.value.split("\n").length;
    if (gutter.childElementCount === count) return;
    gutter.replaceChildren(...Array.from({ length: count }, (_, index) => {
      const line = document.createElement("div");
      line.textContent = String(index + 1);
      if (index + 1 === wrong) line.className = "wrong";
      return line;
    }));
  }
  area.addEventListener("input", number);
  area.addEventListener("scroll", () => { gutter.scrollTop = area.scrollTop; });
  number();
  if (wrong) {
    const before = area.value.split("\n").slice(0, wrong - 1).join("\n").length;
    area.focus();
    area.setSelectionRange(before + (wrong > 1 ? 1 : 0), before + (wrong > 1 ? 1 : 0));
  }
})();
