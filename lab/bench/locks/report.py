"""How the result of the locks' benchmark is shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lab.bench.locks.contenders import CEILING, OURS
from lab.bench.report import Benchmark, Document


def table(document: Document) -> Iterator[Sequence[str]]:
    """Yield the headings and the locks: alone, and with the most processes."""
    few, most = _ends(document["rows"])
    yield (
        *("Lock", f"{few}: per s", f"{most}: hand-overs/s", "±", "p99 ms", "max ms", "Jain"),
        *("cmds", "after kill, s"),
    )
    by = {(row["lock"], row["processes"]): row for row in document["rows"]}
    for name in dict.fromkeys(row["lock"] for row in document["rows"]):
        alone, crowd = by[name, few], by[name, most]
        kill = document["recovery"].get(name)
        yield (
            name,
            f"{alone['acquisitions_per_s']:,.0f}",
            f"{crowd['handovers_per_s']:,.0f}",
            f"{crowd['handovers_spread']:.0%}",
            f"{crowd['p99_ms']:,.0f}",
            f"{crowd['max_ms']:,.0f}",
            f"{crowd['jain']:.2f}",
            f"{crowd['commands_per_acquisition']:,.1f}",
            "" if kill is None else f"{kill:.2f}",
        )


def _ends(rows: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    numbers = {row["processes"] for row in rows}
    return min(numbers), max(numbers)


def distance_to_ceiling(document: Document) -> Iterator[str]:
    """Explain what our lock costs beyond the ceiling; nothing without a ceiling."""
    by = {(row["lock"], row["processes"]): row for row in document["rows"]}
    for many in sorted({row["processes"] for row in document["rows"]}):
        ours, limit = by.get((OURS, many)), by.get((CEILING, many))
        figure = "acquisitions" if many == 1 else "handovers"
        if ours is None or limit is None or not (rate := ours[f"{figure}_per_s"]):
            continue
        what = "acquire and release" if many == 1 else "hand-over"
        mine, least = 1e6 / rate, 1e6 / limit[f"{figure}_per_s"]
        noise = max(ours[f"{figure}_spread"], limit[f"{figure}_spread"])
        sentence = f"{many} {'process' if many == 1 else 'processes'}: {what} in {mine:.0f} µs, "
        sentence += f"of which {least:.0f} µs are the ceiling's."
        if mine < least:
            sentence += f" Less than the ceiling: the rounds differ by ±{noise:.0%}."
        yield sentence


LOCKS = Benchmark("bench-locks", table, distance_to_ceiling)
