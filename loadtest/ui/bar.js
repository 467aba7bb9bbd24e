"use strict";
// A bar at the bottom of Locust's page, and the last figures of our tab: the page stops refreshing its
// tables when a run has stopped.
(() => {
  const bar = document.createElement("div");
  bar.id = "correctness-bar";
  bar.innerHTML = `<style>
    #correctness-bar { position: fixed; inset: auto 0 0 0; z-index: 1300; display: flex;
      flex-wrap: wrap; gap: .25rem .75rem; align-items: center; padding: .5rem 1rem;
      background: #1f1a1e; color: #f4edf0; font: 14px/1.5 system-ui, sans-serif; }
    #correctness-bar [data-text] { flex: 1 1 12rem; font-variant-numeric: tabular-nums; }
    #correctness-bar b { padding: .1rem .6rem; border-radius: 999px; background: #3a3037; }
    #correctness-bar b:empty { display: none; }
    #correctness-bar.fail { background: #7a1024; }
    #correctness-bar b.pass { background: #143524; color: #7fdca7; }
    #correctness-bar b.fail { background: #451722; color: #ff9aa9; }
    #correctness-bar b.unknown { background: #3c2a10; color: #ffc37a; }
    #correctness-bar a { color: inherit; border: 1px solid #685d62; border-radius: 8px;
      padding: .2rem .7rem; text-decoration: none; }
    [role=tab][data-verdict=fail] { background: #7a1024; color: #f4edf0 !important; }
    body { padding-bottom: 4rem; }
  </style><span data-text></span><b></b><a href="./correctness">Verdict and report</a>`;
  document.body.append(bar);
  const [text, badge] = ["[data-text]", "b"].map((what) => bar.querySelector(what));

  const empty = "No sale yet. Start a run; its choices are under Custom parameters.";

  function describe(state) {
    if (state.problem) return `The run could not start: ${state.problem}`;
    if (state.phase === "none") return empty;
    const [broken] = state.broken;
    return (broken ? `${broken.id} ${broken.name}: ${broken.reason} · ` : "")
      + `${state.title} · ${state.held + state.sold} of ${state.total} sold or held`
      + ` · oversold ${state.oversold} · ${state.age}`
      + (state.done ? " · The work is done: stop the run to get the verdict." : "");
  }

  function show(state) {
    const failed = state.problem ? "fail" : state.outcome ?? "";
    text.textContent = describe(state);
    text.title = state.reason ?? "";
    badge.textContent = state.problem ? "not started" : state.verdict ?? "";
    badge.className = failed;
    bar.className = failed === "fail" ? "fail" : "";
    const tab = [...document.querySelectorAll("[role=tab]")]
      .find((each) => each.textContent === "Correctness");
    if (tab) tab.dataset.verdict = failed;
    if (tab?.ariaSelected === "true" && state.phase !== "running") complete(state.rows);
  }

  function complete(rows) {
    const shown = [...document.querySelectorAll("tbody tr")];
    if (shown.length !== rows.length) return;
    shown.forEach((row, number) => {
      const { value, meaning } = rows[number];
      // The page's own text nodes, which it may change again.
      [value, meaning].forEach((text, cell) => { row.cells[cell + 1].firstChild.data = text; });
    });
  }

  async function look() {
    try {
      const answer = await fetch("./correctness/state");
      if (answer.ok) show(await answer.json());
    } catch {
      text.textContent = "Locust does not answer.";
    }
    setTimeout(look, 1000);
  }

  look();
})();
