"""A proof as one HTML file."""

from __future__ import annotations

from pathlib import Path

from lab.proof.proof import FAULT_LOG, Plan, Result
from loadtest.report import Story, gather, write


def write_report(path: Path, plan: Plan, came_out: Result, repeat: str, folder: Path) -> None:
    """Write the report of a proof whose files are in ``folder``."""
    faults, final = folder / FAULT_LOG, folder / "final.snapshot"
    crowd = plan.crowd
    loop = f"open loop, {crowd.arrivals:g} buyers/s" if crowd.arrivals else "closed loop"
    if crowd.arrivals and came_out.late is not None:
        loop += f" ({came_out.late} late, {came_out.unstarted} never)"
    story = Story(
        title=f"{crowd.buyers:,} buyers, {plan.stock:,} units, strategy {plan.strategy}",
        repeat=repeat,
        facts={
            "sale": came_out.sale,
            "strategy": plan.strategy,
            "buyers": f"{crowd.mix}, {loop}",
            "seed": crowd.seed,
            "accepted a second": f"{came_out.rate():,.0f}",
            **({"left out": ", ".join(plan.left_out)} if plan.left_out else {}),
        },
        reason=came_out.reason,
    )
    evidence = gather(
        sorted(folder.glob("*.jsonl")),
        during=came_out.snapshots,
        final=final if final.exists() else None,
        faults=faults if faults.exists() else None,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, story, came_out.verdict, evidence)
