// Curves of what jobs reported, drawn by uPlot and read from the REST interface: the past in a few points, then what is new.
"use strict";
(() => {
  const POINTS = 600, MOST = 4000, EVERY = 2000;
  const COLOURS = ["#2f78b7", "#c2571a", "#2f8f4e", "#8a4fb0", "#b3341f", "#8a6d00", "#1f8a8a", "#b0407a"];

  const id = (metric) => (typeof metric.replica === "string" ? metric.replica : `${metric.replica.role}-${metric.replica.index}`);

  class Job {
    constructor(source, name) { this.source = source; this.name = name; this.since = null; this.series = new Map(); this.count = 0; }

    async read() {
      const query = this.since === null ? `points=${POINTS}` : `since=${encodeURIComponent(this.since)}&limit=${MOST}`;
      const answer = await fetch(`${this.source}?${query}`, { credentials: "same-origin" });
      if (!answer.ok) return false;
      const found = (await answer.json()).metrics;
      let fresh = false;
      for (const each of found) {
        if (each.name === "checkpoint") continue;
        const curves = this.series.get(each.name) ?? new Map();
        this.series.set(each.name, curves);
        const points = curves.get(id(each)) ?? new Map();
        curves.set(id(each), points);
        const at = Date.parse(each.at) / 1000, x = each.step ?? at;
        if (!points.has(x)) { points.set(x, each.value); this.count += 1; fresh = true; }
        if (this.since === null || each.at > this.since) this.since = each.at;
      }
      if (this.count > 4 * MOST) { this.since = null; this.series = new Map(); this.count = 0; }
      return fresh;
    }
  }

  class Board {
    constructor(place) {
      this.place = place;
      const sources = place.dataset.charts.split(" "), names = (place.dataset.name ?? "").split(" ");
      this.jobs = sources.map((source, index) => new Job(source, sources.length > 1 ? names[index] : ""));
      this.plots = new Map();
    }

    async update() {
      let fresh = false;
      for (const job of this.jobs) fresh = (await job.read()) || fresh;
      if (fresh) this.draw();
    }

    draw() {
      const names = new Set(this.jobs.flatMap((job) => [...job.series.keys()]));
      for (const name of [...names].sort()) this.drawOne(name);
    }

    mean(job, name) {
      // Beside other jobs, a job is one curve: the mean of its replicas.
      const sums = new Map();
      for (const points of (job.series.get(name) ?? new Map()).values())
        for (const [x, y] of points) { const [sum, count] = sums.get(x) ?? [0, 0]; sums.set(x, [sum + y, count + 1]); }
      if (!sums.size) return [];
      const points = new Map([...sums].sort((a, b) => a[0] - b[0]).map(([x, [sum, count]]) => [x, sum / count]));
      return [{ label: job.name, points }];
    }

    drawOne(name) {
      const curves = this.jobs.flatMap((job) =>
        this.jobs.length > 1 ? this.mean(job, name) : [...(job.series.get(name) ?? new Map())].map(([label, points]) => ({ label, points })));
      curves.sort((a, b) => (a.label < b.label ? -1 : 1));
      const xs = [...new Set(curves.flatMap((curve) => [...curve.points.keys()]))].sort((a, b) => a - b);
      const data = [xs, ...curves.map((curve) => xs.map((x) => curve.points.get(x) ?? null))];
      const known = this.plots.get(name);
      if (known && known.labels.join("\n") === curves.map((each) => each.label).join("\n")) {
        known.plot.setData(data);
        known.say(curves);
        return;
      }
      if (known) { known.plot.destroy(); known.box.remove(); }
      this.plots.set(name, this.make(name, curves, data));
    }

    make(name, curves, data) {
      if (!this.plots.size) this.place.replaceChildren();
      const box = document.createElement("div"), title = document.createElement("h3"), latest = document.createElement("p");
      box.className = "chart";
      title.textContent = name;
      latest.className = "faint";
      box.append(title, latest);
      this.place.append(box);
      const style = getComputedStyle(document.documentElement);
      const ink = style.getPropertyValue("--faint").trim(), line = style.getPropertyValue("--line").trim();
      const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line }, font: "12px system-ui" };
      const clock = data[0][0] > 1e9;
      const plot = new uPlot({
        width: Math.max(240, box.clientWidth), height: 220,
        scales: { x: { time: clock } },
        axes: [axis, { ...axis, size: 64 }],
        legend: { show: curves.length <= 12 },
        series: [{ label: clock ? "time" : "step" }, ...curves.map((curve, index) => ({
          label: curve.label, stroke: COLOURS[index % COLOURS.length], width: 1.5, spanGaps: true }))],
      }, data, box);
      plot.root.setAttribute("role", "img");
      const say = (now) => {
        latest.textContent = now.length > 4 ? `${now.length} curves` : now.map((curve) => {
          const [x, y] = [...curve.points].at(-1);
          return `${curve.label}: ${Number(y.toPrecision(6))}${clock ? "" : ` at step ${x}`}`;
        }).join(", ");
        plot.root.setAttribute("aria-label", `${name}. ${latest.textContent}`);
      };
      say(curves);
      new ResizeObserver(() => plot.setSize({ width: Math.max(240, box.clientWidth), height: 220 })).observe(box);
      return { plot, box, say, labels: curves.map((each) => each.label) };
    }
  }

  if (typeof uPlot === "undefined") return;
  for (const place of document.querySelectorAll("[data-charts]")) {
    const board = new Board(place);
    const follow = async () => {
      try { if (!document.hidden) await board.update(); } catch { /* the service is away; the live part says so */ }
      setTimeout(follow, EVERY);
    };
    follow();
  }
})();
