"use strict";
// The verdict of the last or an earlier run; live figures until there is one.
(() => {
  const part = (id) => document.getElementById(id);
  const [runs, report, live, reset, download] =
    ["runs", "report", "live", "reset", "download"].map(part);
  const phases = {
    none: "No run yet", idle: "A fresh sale is open", running: "The run is in progress",
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

  function show(state) {
    list(state);
    const number = chosen || (state.phase === "judged" ? state.run : "");
    const address = `./correctness/report?run=${number}`;
    report.hidden = download.hidden = number === "";
    live.hidden = number !== "";
    if (number !== "" && report.dataset.run !== String(number)) {
      report.dataset.run = number;
      report.src = address;
      download.href = `${address}&download`;
    }
    part("phase").textContent = phases[state.phase];
    part("reason").textContent = state.reason ?? "";
    part("rows").replaceChildren(...state.rows.map((row) => {
      const line = document.createElement("tr");
      for (const key of ["what", "value", "meaning"]) {
        line.append(Object.assign(document.createElement("td"), { textContent: row[key] }));
      }
      return line;
    }));
    reset.disabled = state.phase === "running";
  }

  // As high as its content, so that the page scrolls and not the frame.
  report.addEventListener("load", () => {
    const fit = () => { report.style.height = `${report.contentDocument.body.scrollHeight}px`; };
    new ResizeObserver(fit).observe(report.contentDocument.body);
  });
  runs.addEventListener("change", () => { chosen = runs.value; look.now(); });
  reset.addEventListener("click", async () => {
    reset.disabled = true;
    const answer = await fetch("./correctness/reset", { method: "POST" });
    if (!answer.ok) alert(await answer.text());
    chosen = "";
    look.now();
  });

  function look() {
    look.now().finally(() => setTimeout(look, 1000));
  }
  look.now = async () => {
    const answer = await fetch("./correctness/state").catch(() => null);
    if (answer?.ok) show(await answer.json());
  };
  look();
})();
