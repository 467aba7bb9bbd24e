"use strict";
// The verdict of the last or an earlier run; live figures until there is one.
(() => {
  const part = (id) => document.getElementById(id);
  const [runs, report, live, download] = ["runs", "report", "live", "download"].map(part);
  const phases = {
    none: "No run yet", running: "The run is in progress",
    settling: "The run is over; waiting for the follow-up",
    judging: "Comparing every answer with the database", judged: "",
  };
  let chosen = "";
  let listed = "";

  function list(state) {
    const known = JSON.stringify(state.runs);
    if (known === listed) return;
    listed = known;
    const now = new Option("the last one", "");
    const others = state.runs.map((run) =>
      new Option(`${run.number}: ${run.verdict.toUpperCase()} – ${run.title}`, run.number));
    runs.replaceChildren(now, ...others);
    runs.value = chosen;
  }

  // Units by time since this page was opened, of the sale that is shown.
  const lines = { available: [], held: [], sold: [] };
  let drawn = "";

  function draw(state) {
    if (drawn !== state.sale) {
      drawn = state.sale;
      for (const points of Object.values(lines)) points.length = 0;
    }
    const now = performance.now() / 1000;
    for (const [name, points] of Object.entries(lines)) points.push([now, state[name] ?? 0]);
    const [since] = lines.available[0];
    const most = Math.max(1, state.total, ...Object.values(lines).flat().map((point) => point[1]));
    const place = ([at, units]) =>
      `${600 * (at - since) / Math.max(1, now - since)},${115 - 110 * units / most}`;
    part("stock").hidden = state.phase === "none" || lines.available.length < 2;
    part("stock").querySelector("svg").replaceChildren(...Object.keys(lines).map((name) => {
      const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
      line.dataset.line = name;
      line.setAttribute("points", lines[name].map(place).join(" "));
      return line;
    }));
  }

  function show(state) {
    list(state);
    draw(state);
    const number = chosen || (state.phase === "judged" ? state.run : "");
    const address = `./correctness/report?run=${number}`;
    report.hidden = download.hidden = number === "";
    live.hidden = number !== "";
    if (number !== "" && report.dataset.run !== String(number)) {
      report.dataset.run = number;
      report.src = address;
      download.href = `${address}&download`;
    }
    part("phase").textContent = state.problem ? "The run could not start"
      : state.broken?.length ? `FAIL: ${state.broken[0].id} ${state.broken[0].name}`
      : phases[state.phase];
    part("reason").textContent = state.problem || (state.reason ?? "");
    part("rows").replaceChildren(...state.rows.map((row) => {
      const line = document.createElement("tr");
      for (const key of ["what", "value", "meaning"]) {
        line.append(Object.assign(document.createElement("td"), { textContent: row[key] }));
      }
      return line;
    }));
    prove(state.broken ?? []);
  }

  // Of each broken property, the smallest history that shows it.
  function prove(broken) {
    const cells = (line, kind, texts) => line.append(...texts.map((text) =>
      Object.assign(document.createElement(kind), { textContent: text })));
    part("broken").replaceChildren(...broken.map((each) => {
      const section = document.createElement("section");
      cells(section, "h2", [`${each.id} ${each.name}`]);
      cells(section, "p", [each.reason + (each.before
        ? `. Before these, ${each.before} purchases were accepted.` : "")]);
      const scroll = document.createElement("div");
      scroll.className = "scroll";
      const table = scroll.appendChild(document.createElement("table"));
      cells(table.createTHead().insertRow(), "th", ["When", "Buyer", "Asked", "Answered"]);
      const body = table.createTBody();
      for (const { at, buyer, asked, answered } of each.history) {
        cells(body.insertRow(), "td", [at, buyer, asked, answered]);
      }
      if (each.history.length) section.append(scroll);
      return section;
    }));
  }

  // As high as its content, so that the page scrolls and not the frame.
  report.addEventListener("load", () => {
    const fit = () => { report.style.height = `${report.contentDocument.body.scrollHeight}px`; };
    new ResizeObserver(fit).observe(report.contentDocument.body);
  });
  runs.addEventListener("change", () => { chosen = runs.value; look.now(); });

  function look() {
    look.now().finally(() => setTimeout(look, 1000));
  }
  look.now = async () => {
    const answer = await fetch("./correctness/state").catch(() => null);
    if (answer?.ok) show(await answer.json());
  };
  look();
})();
