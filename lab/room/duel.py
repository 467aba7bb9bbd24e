"""A duel: the same buyers at one sale after the other, each with its own strategy.

Each side is a whole proof, with its own load, history, verdict and report, and has the machine for
itself: side by side, each would be measured under the other's load. What the web processes do is
recorded, so that both can be played back on one clock.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from lab.proof.load_profile import LoadProfile
from lab.proof.plan import Plan
from lab.proof.progress import Progress
from lab.proof.result import Result
from lab.proof.run import Proof
from lab.proof.testbed import Testbed
from lab.room.duels import RECORDING
from lab.room.recorder import recording
from lab.room.replays import replay_of
from loadtest.steps import RunFiles
from loadtest.ui.runs import RunFolder, Runs


def plans(strategies: tuple[str, str], buyers: int, stock: int, seed: int) -> list[Plan]:
    """Return the plans of both sides: the same buyers, by the same seed."""
    profile = LoadProfile(buyers, "rush", seed)
    return [Plan(profile, stock, 1, strategy) for strategy in strategies]


def folders(runs: Path) -> tuple[RunFolder, list[Path]]:
    """Make the folder of a new duel, and one for each side in it."""
    run = Runs(runs).new()
    sides = [run.path / "first", run.path / "second"]
    for side in sides:
        side.mkdir()
    return run, sides


def fight(
    plans: list[Plan],
    testbed: Testbed,
    folders: list[Path],
    *,
    watch: Callable[[int], AbstractContextManager[Callable[[Progress], None]]],
) -> list[Result]:
    """Run one side after the other; write the recording of both, and return their results.

    Args:
        plans: of the sides.
        testbed: the shop.
        folders: for each side's history and report; the recording lies beside them.
        watch: called with the side's number; yields what is told its progress.

    Raises:
        LoadFailed, StackError: a side could not be run.
    """
    results, sides = [], []
    for number, (plan, folder) in enumerate(zip(plans, folders, strict=True)):
        with watch(number) as tell, recording(folder):
            proof = Proof(plan, testbed, folder, tell, RunFiles(folder).report)
            proof.run()
        results.append(proof.result)
        replay = replay_of(folder, proof.result.sale, plan.strategy)
        sides.append({"strategy": plan.strategy, **outcome(proof.result), "replay": replay})
    profile = plans[0].profile
    document = {
        "recorded": time.strftime("%Y-%m-%d"),
        "buyers": profile.buyers,
        "units": plans[0].stock,
        "seed": profile.seed,
        "sides": sides,
    }
    text = json.dumps(document, separators=(",", ":"))
    (folders[0].parent / RECORDING).write_text(text, encoding="utf-8")
    return results


def outcome(result: Result) -> dict[str, Any]:
    """Return how a side ended, as the page shows it."""
    counts = result.verdict.counts if result.verdict else {}
    return {
        "outcome": result.outcome,
        "orders": counts.get("orders", 0),
        "oversold": counts.get("oversold", 0),
        "sold_out_ms": round(result.sold_out_after * 1000),
    }
