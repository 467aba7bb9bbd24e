"""The benchmark's result as a table, a chart and a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lab.bench.locks.contenders import CEILING, OURS
from loadtest.chart import Panel, draw

Result = dict[str, Any]
"""`rows`, `recovery`, `ratios` and `machine`, as in the JSON."""

HEADS = (
    "lock",
    "processes",
    "acq./s",
    "±",
    "hand-overs/s",
    "±",
    "p50 ms",
    "p99 ms",
    "max ms",
    "Jain",
    "cmds",
)


def cells(row: dict[str, Any]) -> list[str]:
    """Return a row as table cells."""
    return [
        row["lock"],
        str(row["processes"]),
        f"{row['acquisitions_per_s']:,.0f}",
        f"{row['acquisitions_spread']:.0%}",
        f"{row['handovers_per_s']:,.0f}",
        f"{row['handovers_spread']:.0%}",
        f"{row['p50_ms']:.2f}",
        f"{row['p99_ms']:.2f}",
        f"{row['max_ms']:.1f}",
        f"{row['jain']:.3f}",
        f"{row['commands_per_acquisition']:.2f}",
    ]


def table(result: Result) -> str:
    """Return all rows in aligned columns, then recovery and ratios."""
    lines = [list(HEADS), *(cells(row) for row in result["rows"])]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADS))]
    text = [
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    ]
    text += ["", f"next holder after SIGKILL of the holder (lease {result['lease_s']} s):"]
    text += [f"  {name:28}{seconds:7.3f} s" for name, seconds in result["recovery"].items()]
    text += ["", *(f"  {name:62}{ratio:9.3f}" for name, ratio in result["ratios"].items())]
    text += ["", *distance_to_ceiling(result["rows"])]
    return "\n".join(text)


def distance_to_ceiling(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Explain what our lock costs beyond the ceiling, as sentences; none without a ceiling."""
    by = {(row["lock"], row["processes"]): row for row in rows}
    sentences = []
    for many in sorted({row["processes"] for row in rows}):
        ours, limit = by.get((OURS, many)), by.get((CEILING, many))
        if ours is None or limit is None:
            continue
        figure = "acquisitions_per_s" if many == 1 else "handovers_per_s"
        what = "acquire and release" if many == 1 else "hand-over"
        if not ours[figure] or not limit[figure]:
            continue
        mine, least = 1e6 / ours[figure], 1e6 / limit[figure]
        noise = max(ours[f"{figure.split('_')[0]}_spread"], limit[f"{figure.split('_')[0]}_spread"])
        sentence = f"{many} {'process' if many == 1 else 'processes'}: {what} in {mine:.0f} µs, "
        sentence += f"of which {least:.0f} µs are the ceiling's."
        if mine < least:
            sentence += f" Less than the ceiling: the rounds differ by ±{noise:.0%}."
        sentences.append(sentence)
    return sentences


def ratios(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return the ratios that the project tracks, as far as they were measured."""
    by = {(row["lock"], row["processes"]): row for row in rows}
    most = max(row["processes"] for row in rows)

    def against(figure: str, other: str, processes: int) -> float | None:
        ours, theirs = by.get((OURS, processes)), by.get((other, processes))
        if ours is None or theirs is None or not theirs[figure]:
            return None
        return round(float(ours[figure]) / float(theirs[figure]), 3)

    found = {
        "acquisitions/s alone, against redis-py": against("acquisitions_per_s", "redis-py", 1),
        "acquisitions/s alone, against the ceiling": against("acquisitions_per_s", CEILING, 1),
        f"hand-overs/s at {most}, against python-redis-lock": against(
            "handovers_per_s", "python-redis-lock", most
        ),
        f"hand-overs/s at {most}, against the ceiling": against("handovers_per_s", CEILING, most),
        f"longest wait at {most}, against python-redis-lock": against(
            "max_ms", "python-redis-lock", most
        ),
    }
    return {name: ratio for name, ratio in found.items() if ratio is not None}


def panels(result: Result) -> list[Panel]:
    """Return the panels of the chart."""
    rows = result["rows"]
    most = max(row["processes"] for row in rows)

    def of(figure: str, processes: int, ceiling: bool) -> list[tuple[str, float]]:
        return [
            (row["lock"], row[figure])
            for row in rows
            if row["processes"] == processes and (ceiling or row["lock"] != CEILING)
        ]

    alone = min(row["processes"] for row in rows)
    return [
        Panel(
            f"Acquire and release, {alone} process",
            "acquisitions per second; longer is better",
            of("acquisitions_per_s", alone, ceiling=True),
            "{:,.0f}".format,
        ),
        Panel(
            f"Hand-overs, {most} processes",
            "changes of holder per second; longer is better",
            of("handovers_per_s", most, ceiling=True),
            "{:,.0f}".format,
        ),
        Panel(
            f"Longest wait, {most} processes",
            "ms; shorter is better",
            of("max_ms", most, ceiling=False),
            "{:,.0f} ms".format,
        ),
        Panel(
            f"Requests to the server per acquisition, {most} processes",
            "shorter is better",
            of("commands_per_acquisition", most, ceiling=False),
            "{:,.1f}".format,
        ),
        Panel(
            "Next holder after SIGKILL of the holder",
            f"s, with a lease of {result['lease_s']} s; portalocker has no lease",
            list(result["recovery"].items()),
            "{:.2f} s".format,
        ),
    ]


def chart(result: Result) -> str:
    """Return the result as a self-contained SVG for light and dark backgrounds."""
    machine = result["machine"]
    about = f"{machine['server']}, Python {machine['python']}, {machine['cpus']} CPUs"
    kinds = {OURS: "ours", CEILING: "limit"}
    return draw("Redis locks compared", f"{about}; all on one machine", panels(result), kinds)


HOW_TO_READ = (
    "How to read it:",
    "",
    "- Every process acquires again as soon as it has released, and does nothing while it",
    "  holds the lock. So the figures are the price of the lock itself under the worst",
    "  contention.",
    "- A lock that polls may show many acquisitions and few hand-overs: the process that has",
    "  released takes the lock again before any other process looks. Waits and Jain's index",
    "  (1: equal shares) show who pays for it.",
    "- *cmds* are requests to the server per acquisition, counted in the clients.",
    "- The ceiling is not a lock. Alone, it sets and deletes a key. With others, it passes a",
    "  baton by `BLPOP` and `RPUSH`. Every lock needs these two round trips through hiredis,",
    "  so no lock can be faster; a lock above its ceiling shows how much the rounds differ.",
    "- A round trip on one machine is mostly falling asleep and waking up. Our lock first",
    "  polls its socket for up to 0.1 ms where that pays, and so does the ceiling. The rest is",
    "  the price of the scripts and of Python. With others, our lock also asks before it waits,",
    "  a third round trip, while the baton knows its next owner beforehand.",
    "- The asyncio rows have one task per process, so that they compare with the others. Each",
    "  command passes the event loop, which does not poll.",
    "- Recovery counts from the kill until the next holder enters. It waits for the lease to",
    "  end. portalocker holds the lock by a connection instead, and the server sees that end",
    "  at once.",
    "- [Several hosts](beds.md#the-locks-on-sentinel-and-cluster) has the figures of our locks on",
    "  Redis with Sentinel and on Redis Cluster.",
)


def page(result: Result, command: str) -> str:
    """Return the page for `docs/`: the figures and how they were measured."""
    machine = ", ".join(f"{key} {value}" for key, value in result["machine"].items())
    lines = [
        "# Redis locks compared",
        "",
        "`locking.backends.redis` beside other libraries that lock with Redis.",
        "The command below writes this page; do not edit it.",
        "",
        "![Redis locks compared](bench-locks.svg)",
        "",
        f"    {command}",
        "",
        f"Medians of {result['rounds']} rounds of {result['seconds']} s, contenders interleaved;",
        "± is half the distance between the lowest and the highest round.",
        f"Machine: {machine}. The load, the locks and the server share its cores.",
        "",
        "| " + " | ".join(HEADS) + " |",
        "|---" + "|--:" * (len(HEADS) - 1) + "|",
        *("| " + " | ".join(cells(row)) + " |" for row in result["rows"]),
        "",
        *(f"- {sentence}" for sentence in distance_to_ceiling(result["rows"])),
        "",
        "| comparison | ratio |",
        "|---|--:|",
        *(f"| {name} | {ratio:.2f} |" for name, ratio in result["ratios"].items()),
        "",
        f"| next holder after SIGKILL of the holder (lease {result['lease_s']} s) | s |",
        "|---|--:|",
        *(f"| {name} | {seconds:.2f} |" for name, seconds in result["recovery"].items()),
        "",
        *HOW_TO_READ,
        "",
    ]
    return "\n".join(lines)
