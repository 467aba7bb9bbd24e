"use strict";
// Shows the values at the pointer, for the same moment in every chart. The page works without it.
(() => {
  const values = JSON.parse(document.getElementById("values").textContent);
  const figures = [...document.querySelectorAll("figure[data-chart]")]
    .filter((figure) => values[figure.dataset.chart]);
  const cursors = figures.map((figure) => {
    const cursor = document.createElement("div");
    cursor.className = "cursor";
    cursor.hidden = true;
    figure.querySelector(".plot").append(cursor);
    return cursor;
  });

  function show(place) {
    figures.forEach((figure, number) => {
      const { at, values: series } = values[figure.dataset.chart];
      const nearest = Math.max(0, at.findLastIndex((start) => start <= place));
      cursors[number].hidden = false;
      cursors[number].style.left = `${place * 100}%`;
      figure.querySelectorAll("[data-key]").forEach((key) => {
        const value = series[key.dataset.key]?.[nearest];
        key.textContent = value === null || value === undefined ? "–" : value.toLocaleString();
      });
    });
  }

  function hide() {
    for (const cursor of cursors) cursor.hidden = true;
    for (const key of document.querySelectorAll("[data-key]")) key.textContent = "";
  }

  for (const figure of figures) {
    const plot = figure.querySelector("svg");
    plot.addEventListener("pointermove", (event) => {
      const box = plot.getBoundingClientRect();
      show(Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1));
    });
    plot.addEventListener("pointerleave", hide);
  }
})();
