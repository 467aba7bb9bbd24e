"""Summary of a soak's rounds, for programs and for readers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

KEPT = (
    *("round", "verdict", "reason", "strategy", "mix", "buyers", "stock", "limit", "seed"),
    *("counts", "operations", "seconds", "took", "repeat", "left_out"),
)
VERDICTS = ("pass", "fail", "unknown")


def kept(result: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a round's result that the soak keeps: a few kilobytes."""
    return {name: result[name] for name in KEPT if name in result} | {
        "properties": {
            each["id"]: each["verdict"]
            if each["verdict"] == "pass"
            else f"{each['verdict']}: {each['detail']}"
            for each in result.get("properties", [])
        },
        "faults": [[each["fault"], each["recovery"]] for each in result.get("faults", [])],
    }


def summary(state: dict[str, Any]) -> dict[str, Any]:
    """Add up all rounds of a soak's state."""
    rounds = state["rounds"]
    verdicts = Counter(each["verdict"] for each in rounds)
    counts: Counter[str] = Counter()
    for each in rounds:
        counts.update(each.get("counts") or {})
    return {
        "seed": state["seed"],
        "seconds": round(state["seconds"]),
        "rounds": len(rounds),
        "operations": sum(each.get("operations", 0) for each in rounds),
        "faults": sum(len(each["faults"]) for each in rounds),
        "verdicts": {name: verdicts[name] for name in VERDICTS},
        "by_property": _by_property(rounds),
        "by_fault": _by_fault(rounds),
        "by_strategy": dict(sorted(Counter(each["strategy"] for each in rounds).items())),
        "by_mix": dict(sorted(Counter(each["mix"] for each in rounds).items())),
        "left_out": {k: v for each in rounds for k, v in (each.get("left_out") or {}).items()},
        "counts": {name: counts[name] for name in ("ok", "fail", "info", "orders", "oversold")},
        "not_passed": [
            {name: each.get(name) for name in ("round", "verdict", "reason", "repeat")}
            | {"properties": {k: v for k, v in each["properties"].items() if v != "pass"}}
            for each in rounds
            if each["verdict"] != "pass"
        ],
    }


def line(result: dict[str, Any], so_far: dict[str, Any]) -> str:
    """Describe one round and the soak so far in one line."""
    faults = len(result.get("faults", []))
    broken = [f"{p['id']} {p['verdict']}" for p in result.get("properties", [])]
    broken = [each for each in broken if not each.endswith(" pass")]
    why = f" ({', '.join(broken) or result.get('reason', '')})"
    return (
        f"round {result['round']}: {result['verdict'].upper()}"
        f"{why if result['verdict'] != 'pass' else ''}, {result['strategy']}/{result['mix']}, "
        f"{result.get('operations', 0):,} operations, {faults} faults, {result['took']:.0f} s "
        f"| all: {so_far['operations']:,} operations, {so_far['faults']} faults, "
        f"{so_far['verdicts']['pass']} of {so_far['rounds']} rounds passed"
    )


def markdown(summary: dict[str, Any]) -> str:
    """Render the summary as a page."""
    counts, verdicts = summary["counts"], summary["verdicts"]
    judged = ", ".join(f"{number} {verdict}" for verdict, number in verdicts.items())
    answered = ", ".join(
        f"{counts[name]:,} {shown}"
        for name, shown in {"ok": "accepted", "fail": "refused", "info": "unknown"}.items()
    )
    lines = [
        "# Soak",
        "",
        "Rounds of random faults. Each round starts a fresh shop and gets its own verdict:",
        "",
        f'    make soak ARGS="--minutes {summary["seconds"] / 60:.0f} --seed {summary["seed"]}"',
        "",
        f"- {summary['rounds']} rounds in {summary['seconds'] / 60:.0f} minutes: {judged}",
        f"- {summary['operations']:,} operations recorded, {summary['faults']:,} faults injected",
        f"- {counts['orders']:,} orders; purchases by key: {answered}",
        f"- oversold: {counts['oversold']}",
        f"- strategies: {_listed(summary['by_strategy'])}; mixes: {_listed(summary['by_mix'])}",
        "",
        "| fault | injected | longest time to the first ok | median |",
        "|---|---:|---:|---:|",
        *(
            f"| {name} | {each['times']} | {_seconds(each['longest'])} "
            f"| {_seconds(each['median'])} |"
            for name, each in summary["by_fault"].items()
        ),
        *(f"| {name} | left out: needs {what} | | |" for name, what in summary["left_out"].items()),
        "",
        "| property | pass | fail | unknown |",
        "|---|---:|---:|---:|",
        *(
            f"| {name} | {each['pass']} | {each['fail']} | {each['unknown']} |"
            for name, each in summary["by_property"].items()
        ),
    ]
    if summary["not_passed"]:
        lines += ["", "## Rounds that did not pass", ""]
        lines += [
            f"- round {each['round']}: {each['verdict']}. {each['reason'] or ''} "
            + "; ".join(f"{name} {what}" for name, what in each["properties"].items())
            + (f" Again: `{each['repeat']}`" if each["repeat"] else "")
            for each in summary["not_passed"]
        ]
    return "\n".join(lines) + "\n"


def _by_property(rounds: Iterable[dict[str, Any]]) -> dict[str, dict[str, int]]:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for each in rounds:
        for name, verdict in each["properties"].items():
            found[name][verdict.partition(":")[0]] += 1
    in_order = sorted(found, key=lambda name: int(name[1:]))
    return {name: {each: found[name][each] for each in VERDICTS} for name in in_order}


def _by_fault(rounds: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    waits: dict[str, list[float | None]] = defaultdict(list)
    for each in rounds:
        for name, recovery in each["faults"]:
            waits[name].append(recovery)
    found = {}
    for name in sorted(waits):
        known = sorted(wait for wait in waits[name] if wait is not None)
        found[name] = {
            "times": len(waits[name]),
            "longest": known[-1] if known else None,
            "median": known[len(known) // 2] if known else None,
            "never": len(waits[name]) - len(known),
        }
    return found


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} ({times})" for name, times in counts.items())


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} s"
