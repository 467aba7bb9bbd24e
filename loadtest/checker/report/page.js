"use strict";
// Draws the charts of the page with uPlot, all over the same span of time. What they show stands in
// the page as data; without scripts, the page has everything else.
(() => {
  const { seconds, charts = [], faults = [] } = JSON.parse(document.getElementById("values").textContent);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const amount = (value) => (value == null ? "–" : value.toLocaleString("en", { maximumSignificantDigits: 6 }));
  const drawn = [];

  // The values of a stack's curves, each added to those below it.
  function added(curves) {
    const sums = curves[0].values.map(() => 0);
    return curves.map(({ values }) => values.map((value, place) => (sums[place] += value)));
  }

  function drawFaults({ ctx, bbox, valToPos }) {
    ctx.save();
    ctx.globalAlpha = 0.16;
    ctx.fillStyle = colour("fault");
    for (const { start, end } of faults) {
      const [left, right] = [start, end].map((at) => valToPos(at, "x", true));
      ctx.fillRect(left, bbox.top, Math.max(2, right - left), bbox.height);
    }
    ctx.restore();
  }

  function options(chart, element) {
    const axis = {
      stroke: colour("faint"), font: "12px system-ui, sans-serif", ticks: { show: false },
      grid: { stroke: colour("line"), width: 1 },
    };
    const stepped = uPlot.paths.stepped({ align: 1 });
    const series = chart.curves.map(({ name, colour: own, values }, number) => ({
      label: name, width: chart.stacked ? 0 : 2, stroke: colour(own), points: { show: !chart.stacked && values.length < 3 },
      // The lowest curve is filled to the axis, the others down to the one below them.
      fill: chart.stacked ? colour(own) : undefined, paths: chart.stacked ? stepped : undefined,
      value: (_, __, ___, place) => amount(place == null ? null : chart.curves[number].values[place]),
    }));
    if (chart.limit) {
      series.push({ label: "in stock", stroke: colour("faint"), width: 1, dash: [4, 4], paths: stepped, points: { show: false }, value: (_, value) => amount(value) });
      if (beyond(chart).some(Boolean)) series.push({ label: "sold too many", stroke: colour("red"), width: 0, fill: colour("red"), paths: stepped, points: { show: false }, value: (_, __, ___, place) => amount(place == null ? null : beyond(chart)[place]) });
    }
    return {
      width: element.clientWidth, height: 220, series: [{ label: "s" }, ...series],
      bands: bandsOf(chart), cursor: { sync: { key: "time" }, y: false },
      scales: {
        x: { time: false, range: [0, seconds] },
        y: chart.logarithmic ? { distr: 3 } : { range: (_, __, top) => [0, Math.max(top || 0, 1) * 1.05] },
      },
      axes: [
        { ...axis, values: (_, ticks) => ticks.map((tick) => `${tick} s`) },
        { ...axis, size: 62, values: (_, ticks) => ticks.map((tick) => (tick == null ? "" : amount(tick))) },
      ],
      hooks: { draw: [drawFaults] },
    };
  }

  const beyond = ({ curves, limit }) =>
    limit.map((most, place) => Math.max(0, curves[0].values[place] + curves[1].values[place] - most));

  function bandsOf({ curves, stacked, limit }) {
    if (!stacked) return [];
    const bands = curves.slice(1).map((_, number) => ({ series: [number + 2, number + 1] }));
    if (limit && beyond({ curves, limit }).some(Boolean)) bands.push({ series: [curves.length + 2, curves.length + 1] });
    return bands;
  }

  function data(chart) {
    const { at, curves, stacked, limit } = chart;
    const rows = stacked ? added(curves) : curves.map(({ values }) => values);
    if (limit) rows.push(limit);
    // What was sold above the stock is a band from the limit upwards.
    const tooMany = limit ? beyond(chart) : [];
    if (tooMany.some(Boolean)) rows.push(limit.map((most, place) => most + tooMany[place]));
    return [at, ...rows];
  }

  function draw() {
    for (const plot of drawn.splice(0)) plot.destroy();
    for (const chart of charts) {
      const element = document.querySelector(`[data-chart="${chart.identity}"] .plot`);
      drawn.push(new uPlot(options(chart, element), data(chart), element));
    }
  }

  draw();
  addEventListener("resize", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
