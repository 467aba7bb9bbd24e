"""A long series of proofs under random faults, each a round of its own: fresh servers, a fresh
sale, its own verdict. So memory and disk stay bounded however long it runs, and it can be
interrupted.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from lab import environment
from loadtest.report.headline import counted

ROUNDS = "rounds.jsonl"
"""Finished rounds, a line each. One that was interrupted leaves none, and comes again."""

QUICK = {"rush": 5, "doubles": 2}
"""Mixes that make many operations, and how often each comes; their buyers do not pay."""

MIXES = {**QUICK, "carts": 1, "all": 2}
"""Mixes whose buyers ask twice for the same, as P13 wants it. `all` has the others in it."""

STRATEGIES = ("combining", "guard", "row_lock")
"""Those that keep every promise under every fault. `redis_lock` does not oversell either, but when
its holder dies every buyer waits until its lease of 10 s has ended, which P12 calls too long."""

BUYERS = (30, 90)
LIMIT = (1, 3)
"""Ranges to draw from: buyers at once, units a buyer."""

STOCK, SMALL_STOCK = (50, 400), (20, 80)
"""Units at each restock, so that a sale is as often sold out as not; the smaller ones where little
is sold at once: by other strategies than combining, or with payments."""

GRACE = 360
"""Seconds beyond its minutes after which a round is given up: start, drain and verdict."""

KEPT = ("verdict", "reason", "counts", "operations", "repeat")
"""What is kept of a round's result, besides its properties and faults."""

VERDICTS = ("pass", "fail", "unknown")


def soak(
    folder: Path,
    tell: Callable[[str], None],
    *,
    seed: int,
    minutes: float,
    round_minutes: float,
    strategies: Sequence[str] = STRATEGIES,
) -> dict[str, Any]:
    """Play rounds until the minutes are over; return the summary.

    Args:
        folder: for the rounds, the summary, and the evidence of rounds that did not pass.
        tell: called with a line for each round that has ended.
        seed: of everything that is drawn, unless the folder has rounds already.
        minutes: over all its sessions.
        round_minutes: of load in one round.
        strategies: to draw from.
    """
    file = folder / ROUNDS
    rounds = list(map(json.loads, file.read_text().splitlines())) if file.exists() else []
    seed = rounds[0]["soak"] if rounds else seed
    ends = time.monotonic() + 60 * minutes - sum(each["took"] for each in rounds)
    if rounds:
        tell(f"Continuing after {counted(len(rounds), 'round')}, which --minutes includes.")
    while time.monotonic() < ends:
        number = len(rounds) + 1
        own = folder / f"{number:04}"
        drawn = draw_round(seed, number, strategies)
        result = _play(own, drawn, round_minutes)
        rounds.append({"soak": seed, "round": number, **drawn, **result})
        with file.open("a") as lines:
            lines.write(json.dumps(rounds[-1]) + "\n")
        if result["verdict"] == "pass":
            shutil.rmtree(own)
        (folder / "summary.md").write_text(markdown(summary(rounds)))
        tell(line(rounds))
    return summary(rounds)


def draw_round(seed: int, number: int, strategies: Sequence[str]) -> dict[str, Any]:
    """Arguments of `prove` for a round; the strategy named first comes three times in four."""
    random = Random(f"soak/{seed}/{number}")
    first, *others = strategies
    strategy = first if not others or random.random() < 0.75 else random.choice(others)
    [mix] = random.choices(list(MIXES), list(MIXES.values()))
    quick = strategy == "combining" and mix in QUICK
    return {
        "strategy": strategy,
        "mix": mix,
        "buyers": random.randint(*BUYERS),
        "stock": random.randint(*(STOCK if quick else SMALL_STOCK)),
        "limit": random.randint(*LIMIT),
        "seed": random.randrange(1, 2**31),
    }


def _play(folder: Path, drawn: dict[str, Any], minutes: float) -> dict[str, Any]:
    """One round, in a process of its own; its result, or why there is none."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    file = folder / "result.json"
    command = [
        *(sys.executable, "manage.py", "prove", "--faults", "all", "--minutes", str(minutes)),
        *(text for name, value in drawn.items() for text in (f"--{name}", str(value))),
        *("--json", str(file.resolve()), "--jsonl", str((folder / "run").resolve())),
    ]
    began = time.monotonic()
    reason = _execute(command, folder / "prove.log", 60 * minutes + GRACE)
    found: dict[str, Any] = {"verdict": "unknown", "reason": reason}
    with suppress(OSError, ValueError):
        found = json.loads(file.read_text())
    return {
        **{name: found[name] for name in KEPT if name in found},
        "took": round(time.monotonic() - began, 1),
        "properties": {
            each["id"]: (each["verdict"], each["detail"]) for each in found.get("properties", ())
        },
        "faults": [each["fault"] for each in found.get("faults", ())],
    }


def _execute(command: list[str], log: Path, seconds: float) -> str:
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command,
            cwd=environment.PROJECT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # Ctrl-C is for this command, which then ends its round in order.
            start_new_session=True,
        ) as process,
    ):
        try:
            return f"no result; exit code {process.wait(seconds)}"
        except subprocess.TimeoutExpired:
            return "the round did not end"
        finally:
            if process.poll() is None:
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(60)
                process.kill()


def summary(rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Add up all rounds of a soak."""
    counts: Counter[str] = Counter()
    for each in rounds:
        counts.update(each.get("counts") or {})
    judged = Counter(each["verdict"] for each in rounds)
    return {
        "seed": rounds[0]["soak"] if rounds else None,
        "seconds": round(sum(each["took"] for each in rounds)),
        "rounds": len(rounds),
        "operations": sum(each.get("operations", 0) for each in rounds),
        "faults": sum(len(each["faults"]) for each in rounds),
        "verdicts": {name: judged[name] for name in VERDICTS},
        "counts": {name: counts[name] for name in ("ok", "fail", "info", "orders", "oversold")},
        "not_passed": [
            f"round {each['round']}: {each['verdict']}. {each.get('reason') or ''} {_broken(each)} "
            f"Again: `{each.get('repeat')}`"
            for each in rounds
            if each["verdict"] != "pass"
        ],
    }


def _broken(result: dict[str, Any]) -> str:
    found = result["properties"].items()
    return "; ".join(f"{name} {told[0]}: {told[1]}" for name, told in found if told[0] != "pass")


def line(rounds: Sequence[dict[str, Any]]) -> str:
    """Describe the last round and the soak so far in one line."""
    last, so_far = rounds[-1], summary(rounds)
    why = f" ({_broken(last) or last.get('reason', '')})" if last["verdict"] != "pass" else ""
    return (
        f"round {last['round']}: {last['verdict'].upper()}{why}, {last['strategy']}/{last['mix']}, "
        f"{last.get('operations', 0):,} operations, {len(last['faults'])} faults, "
        f"{last['took']:.0f} s | all: {so_far['operations']:,} operations, "
        f"{so_far['faults']} faults, {so_far['verdicts']['pass']} of {so_far['rounds']} passed"
    )


def markdown(summary: dict[str, Any]) -> str:
    """Render the summary as a page."""
    counts, verdicts = summary["counts"], summary["verdicts"]
    judged = ", ".join(f"{number} {verdict}" for verdict, number in verdicts.items())
    lines = [
        f"# Soak with seed {summary['seed']}",
        "",
        f"- {counted(summary['rounds'], 'round')} in {summary['seconds'] / 60:.1f} min: {judged}",
        f"- {summary['operations']:,} operations recorded, {summary['faults']:,} faults injected",
        f"- {counts['ok']:,} accepted, {counts['fail']:,} refused, {counts['info']:,} unknown",
        f"- {counts['orders']:,} orders, oversold: {counts['oversold']}",
        *(f"- {told}" for told in summary["not_passed"]),
    ]
    return "\n".join(lines) + "\n"
