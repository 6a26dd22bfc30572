"use strict";

// Everything is drawn from data, and again when the colour scheme changes.

const s = data.series;
const t = s.t_s || [];

// short writes 1234567 as 1.23M.
function short(v) {
  if (v == null) return "–";
  const a = Math.abs(v);
  for (const [f, u] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (a >= f) return trim((v / f).toPrecision(3)) + u;
  return a === 0 ? "0" : trim(a < 1 ? v.toPrecision(2) : v.toPrecision(3));
}
function trim(text) { return text.includes(".") && !text.includes("e") ? text.replace(/\.?0+$/, "") : text; }

// time writes a number of units, each of so many microseconds.
function time(v, micros) {
  if (v == null) return "–";
  const us = v * micros;
  if (us >= 1e6) return trim((us / 1e6).toPrecision(3)) + " s";
  if (us >= 1e3) return trim((us / 1e3).toPrecision(3)) + " ms";
  return trim(us.toPrecision(us < 1 ? 2 : 3)) + " µs";
}
function usd(v) { return v == null ? "–" : "$" + (v === 0 ? "0" : v < 0.01 ? trim(v.toPrecision(2)) : v.toFixed(v < 10 ? 3 : 2)); }
function bytes(v) { return v == null ? "–" : v >= 1e9 ? trim((v / 1e9).toPrecision(3)) + " GB" : trim((v / 1e6).toPrecision(3)) + " MB"; }

// rate is the growth of a count for each second, over half a second at least:
// samples are shorter than the time from one entry to the next.
function rate(counts, scale) {
  let j = -1; // the window begins at sample j; -1 is the start of the run
  return counts.map((v, i) => {
    while (j + 1 < i && t[i] - t[j + 1] >= 0.5) j++;
    const dt = t[i] - (j < 0 ? 0 : t[j]);
    return dt > 0 ? (v - (j < 0 ? 0 : counts[j])) / dt / scale : null;
  });
}

// nines writes the x of a percentile curve as a percentage.
function nines(x) { return trim((100 * (1 - 10 ** -x)).toFixed(Math.max(0, Math.ceil(x) - 1))) + "%"; }

const overTime = { x: v => trim((+v).toFixed(1)), label: "s", name: "time" };
const byNines = { x: nines, label: "percentile", name: "percentile", splits: [0, Math.log10(2), 1, 2, 3, 4, 5, 6] };

const constant = v => t.map(() => v);

// A chart has lines {name, values, axis: "left" or "right", text, dash, fill, thin, gaps}.
const charts = [];
if (t.length > 0) {
  charts.push({
    title: "Throughput", x: t, kind: overTime, left: ["MB/s", short], right: ["rows/s", short],
    lines: [
      { name: "written, MB/s", values: rate(s.bytes, 1e6), axis: "left", text: short, fill: true },
      { name: "acknowledged, rows/s", values: rate(s.rows, 1), axis: "right", text: short, thin: true },
      ...(data.baseline > 0 ? [{ name: "bare puts, MB/s", values: constant(data.baseline), axis: "left", text: short, dash: true }] : []),
    ],
  });
}
if (data.ack) {
  charts.push({
    title: "Latency by percentile", x: data.ack.x, kind: byNines, left: ["", v => time(v, 1e3)], log: true,
    lines: data.ack.lines.map(l => ({ ...l, axis: "left", text: v => time(v, 1e3) })),
  });
}
if (t.length > 0) {
  const shown = name => s[name].map((v, i) => s.acks[i] > 0 ? v : null);
  charts.push({
    title: "Acknowledgement latency over time", x: t, kind: overTime, left: ["", v => time(v, 1e3)], log: true,
    lines: [
      { name: "p50", values: shown("ack_p50_ms"), axis: "left", text: v => time(v, 1e3), gaps: true },
      { name: "p99", values: shown("ack_p99_ms"), axis: "left", text: v => time(v, 1e3), gaps: true },
    ],
  });
  charts.push({
    title: "PUTs and their cost", x: t, kind: overTime, left: ["PUTs/s", short], right: ["$ so far", usd],
    lines: [
      { name: "PUTs/s", values: rate(s.puts, 1), axis: "left", text: short },
      { name: "cost so far", values: s.usd, axis: "right", text: usd },
    ],
  });
  const known = v => v.some(x => x > 0);
  charts.push({
    title: "Memory", x: t, kind: overTime, left: ["", bytes],
    lines: [
      { name: "rows and indexes", values: s.resident_bytes, axis: "left", text: bytes },
      { name: "Go heap", values: s.heap_bytes, axis: "left", text: bytes },
      { name: "process, resident", values: s.rss_bytes, axis: "left", text: bytes },
    ].filter(l => known(l.values)),
    note: "Rows count in full, though those of repeated input share memory. The heap has the prepared input too, and objects that are not collected yet.",
  });
  charts.push({
    title: "In-flight window", x: t, kind: overTime, left: ["appends", short],
    lines: [
      { name: "in flight", values: s.in_flight, axis: "left", text: short },
      { name: "limit", values: constant(data.inflight), axis: "left", text: short, dash: true },
    ],
    note: "Entries that were being encoded and put, at the moment of a sample.",
  });
}
if (data.read) {
  charts.push({
    title: "Read latency by percentile", x: data.read.x, kind: byNines, left: ["", v => time(v, 1)], log: true,
    lines: data.read.lines.map(l => ({ ...l, axis: "left", text: v => time(v, 1) })),
  });
}
if (data.query) {
  charts.push({
    title: "Query latency by percentile", x: data.query.x, kind: byNines, left: ["", v => time(v, 1)], log: true,
    lines: data.query.lines.map(l => ({ ...l, axis: "left", text: v => time(v, 1) })),
  });
}

const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function axis(c, side, text) {
  return {
    scale: side, side: side === "left" ? 3 : 1, size: 58, stroke: colour("--muted"), font: "12px system-ui, sans-serif",
    grid: { show: side === "left", stroke: colour("--grid"), width: 1 }, ticks: { show: false },
    values: (u, splits) => splits.map(v => v == null ? "" : text(v)),
    splits: c.log ? (u, i, lo, hi) => decades(lo, hi) : undefined,
  };
}

// decades are the powers of ten from lo to hi, and 2 and 5 times these where
// there are few.
function decades(lo, hi) {
  const list = [];
  for (let e = Math.floor(Math.log10(lo)); e <= Math.ceil(Math.log10(hi)); e++)
    for (const f of hi / lo < 500 ? [1, 2, 5] : [1]) list.push(f * 10 ** e);
  return list.filter(v => v >= lo * 0.999 && v <= hi * 1.001);
}

function draw(c, box) {
  const hues = ["--c1", "--c2", "--c3", "--c4", "--c5", "--c6", "--c7"];
  const scales = { x: { time: false }, left: { range: c.log ? undefined : fromZero } };
  if (c.log) scales.left.distr = 3;
  if (c.right) scales.right = { range: fromZero };
  if (c.kind === byNines) scales.x.range = [0, Math.max(1, c.x[c.x.length - 1])];
  else scales.x.range = (u, lo, hi) => [lo === c.x[0] ? 0 : lo, hi > lo ? hi : lo + 1];
  const xAxis = {
    stroke: colour("--muted"), font: "12px system-ui, sans-serif", size: 30, ticks: { show: false },
    grid: { stroke: colour("--grid"), width: 1 },
    values: (u, splits) => splits.map((v, i) => c.kind.x(v) + (c.kind === overTime ? " s" : "")),
  };
  if (c.kind.splits) xAxis.splits = (u, i, lo, hi) => {
    let last = -Infinity; // pixels; names must not touch
    return c.kind.splits.filter(v => {
      const at = v / hi * (u.width - 75), fits = v <= hi + 1e-9 && at - last >= 50;
      if (fits) last = at;
      return fits;
    });
  };
  const opts = {
    width: box.clientWidth, height: 240, padding: [8, c.right ? 0 : 16, 0, 0],
    scales, axes: [xAxis, axis(c, "left", c.left[1]), ...(c.right ? [axis(c, "right", c.right[1])] : [])],
    cursor: { points: { size: 7 }, drag: { x: c.kind === overTime, y: false } },
    legend: { live: true },
    series: [
      { label: c.kind.name, value: (u, v) => v == null ? "–" : c.kind.x(v) + (c.kind === overTime ? " s" : "") },
      ...c.lines.map((l, i) => ({
        label: l.name, scale: l.axis, stroke: colour(l.dash ? "--muted" : hues[i % hues.length]), width: l.dash ? 1.5 : l.thin ? 1 : 2,
        fill: l.fill ? colour(hues[i % hues.length]) + "26" : undefined,
        dash: l.dash ? [6, 4] : undefined, value: (u, v) => l.text(v), spanGaps: !!l.gaps,
        points: { show: !l.dash && l.values.filter(v => v != null).length < 12 },
      })),
    ],
  };
  return new uPlot(opts, [c.x, ...c.lines.map(l => l.values)], box);
}
function fromZero(u, lo, hi) { return [0, hi > 0 ? hi * 1.08 : 1]; }

const host = document.getElementById("charts");
host.replaceChildren();
const drawn = [];
for (const c of charts) {
  const section = document.createElement("section");
  const add = (tag, name, text) => {
    const e = document.createElement(tag);
    e.className = name;
    e.textContent = text;
    section.append(e);
    return e;
  };
  add("h2", "", c.title);
  if (c.left[0] || c.right) {
    const units = add("div", "units", "");
    for (const text of [c.left[0], c.right ? c.right[0] : ""]) units.append(Object.assign(document.createElement("span"), { textContent: text }));
  }
  const box = add("div", "plot", "");
  if (c.note) add("p", "note", c.note);
  host.append(section);
  drawn.push({ chart: c, box, plot: null });
}
function drawAll() {
  for (const d of drawn) {
    if (d.plot) d.plot.destroy();
    d.plot = draw(d.chart, d.box);
  }
}
drawAll();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
new ResizeObserver(() => {
  for (const d of drawn)
    if (d.plot.width !== d.box.clientWidth) d.plot.setSize({ width: d.box.clientWidth, height: 240 });
}).observe(host);
