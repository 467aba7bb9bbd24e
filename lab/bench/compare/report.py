"""The strategies' comparison as a page with charts, for `docs/`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loadtest.chart import Panel, draw

Row = dict[str, Any]
"""A strategy in the form of :meth:`Compared.to_json`."""

HEADS = ("strategy", "accepted/s", "p50 ms", "p99 ms", "sell-through", "sold", "left over")
PROVED = {"pass": "proved", "fail": "**broken**", "unknown": "not judged"}


def panels(rows: Sequence[Row]) -> list[Panel]:
    """Return the panels of the chart."""

    def of(part: str, figure: str) -> list[tuple[str, float]]:
        return [(row["name"], float(row[part][figure])) for row in rows]

    stock = rows[0]["sell_through"]["stock"]
    return [
        Panel(
            "Purchases accepted",
            "per second; longer is better",
            of("sell_through", "rate"),
            "{:,.0f}".format,
        ),
        Panel(
            "Slowest of 100 answers (p99)",
            "ms; shorter is better",
            of("sell_through", "p99_ms"),
            "{:,.0f} ms".format,
        ),
        Panel(
            f"Time to sell {stock:,} units",
            "s, extrapolated from the rate where it did not finish; shorter is better",
            [(row["name"], sell_out(row["sell_through"])) for row in rows],
            "{:,.0f} s".format,
        ),
        Panel(
            "Purchases accepted while Redis does not answer",
            "per second; longer is better",
            of("redis_away", "rate"),
            "{:,.0f}".format,
        ),
        Panel(
            "Oversold in a rush",
            "units; 0 is correct",
            [(row["name"], float(oversold(row))) for row in rows],
            "{:,.0f}".format,
        ),
    ]


def oversold(row: Row) -> int:
    """Return the units oversold in the sell-through or the proof, whichever is more.

    The sell-through of a slow strategy ends before its stock does, so nothing is oversold there.
    """
    in_proof = row["proof"]["counts"].get("oversold", 0)
    return int(max(row["sell_through"]["oversold"], in_proof))


def sell_out(sold: dict[str, Any]) -> float:
    """Return the seconds that the whole stock takes at the measured rate."""
    if sold["left"] == 0:
        return float(sold["seconds"])
    # A strategy that sold nothing would take forever, which no bar can show.
    return float(sold["stock"] / max(sold["rate"], 1 / sold["seconds"]))


def chart(rows: Sequence[Row], about: str) -> str:
    """Return the charts as one SVG."""
    kinds = {row["name"]: "bad" for row in rows if not row["safe"]} | {"combining": "ours"}
    return draw("Selling strategies, compared", about, panels(rows), kinds)


def cells(row: Row) -> list[str]:
    """Return the cells of a row of the first table."""
    sold = row["sell_through"]
    finished = sold["left"] == 0
    through = f"{sell_out(sold):,.1f} s" if finished else f"about {sell_out(sold):,.0f} s"
    return [
        f"`{row['name']}`",
        f"{sold['rate']:,.0f}",
        f"{sold['p50_ms']:,.1f}",
        f"{sold['p99_ms']:,.1f}",
        through if sold["sold"] else "never",
        f"{sold['sold']:,}",
        left_over(sold),
    ]


def left_over(sold: dict[str, Any]) -> str:
    """Return the units left in the database, in bold if more were sold than it deducted."""
    if sold["sold"] + sold["left"] > sold["stock"]:
        return f"**{sold['left']:,}** of {sold['stock']:,}"
    return f"{sold['left']:,}" if sold["left"] == 0 else f"{sold['left']:,}, time was up"


def verdict(row: Row) -> list[str]:
    """Return the cells of a row of the second table."""
    proof, away = row["proof"], row["redis_away"]
    broken = [each["id"] for each in proof["properties"] if each["verdict"] == "fail"]
    return [
        f"`{row['name']}`",
        "yes" if row["safe"] else "**no**",
        "yes" if row["fenced"] else "no",
        f"sells {away['rate']:,.0f}/s" if away["rate"] >= 1 else "busy: nothing is sold",
        PROVED[proof["verdict"]] + (f" ({', '.join(broken)})" if broken else ""),
        f"**{oversold(row):,}**" if oversold(row) else "0",
        str(stranded(row)),
        recoveries(proof["faults"]),
    ]


def stranded(row: Row) -> str:
    """Return the finding of P7: whether buyers were refused while units were left."""
    [found] = [each for each in row["proof"]["properties"] if each["id"] == "P7"] or [None]
    if found is None or found["verdict"] == "unknown":
        return "not judged"
    return "0" if found["verdict"] == "pass" else f"**some**: {found['detail']}"


def recoveries(faults: Sequence[dict[str, Any]]) -> str:
    """Return the seconds from the end of each fault to the next accepted purchase."""
    if not faults:
        return "no faults injected"
    return ", ".join(f"{each['fault']} {_seconds(each['recovery'])}" for each in faults)


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.1f} s"


def page(rows: Sequence[Row], command: str, about: str, scale: dict[str, Any]) -> str:
    """Return the page without its notes."""
    lines = [
        "# Selling strategies, compared",
        "",
        "Every strategy of `lab/strategies/`, in one shop on",
        "one machine, under the same load, faults and checker. The command below writes this page;",
        "its text is in `lab/bench/compare/notes.md`.",
        "",
        f"    {command}",
        "",
        f"{about}.",
        f"{scale['connections']} connections, {scale['stock']:,} units.",
        "",
        "![The strategies compared](strategies.svg)",
        "",
        *_table(HEADS, [cells(row) for row in rows]),
        "",
        *_table(
            (
                "strategy",
                "safe",
                "fenced",
                "while Redis does not answer",
                f"verdict of {scale['buyers']:,} buyers",
                "oversold",
                "stranded (P7)",
                "sells again after",
            ),
            [verdict(row) for row in rows],
        ),
    ]
    return "\n".join(lines) + "\n"


def _table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    bars = "|---" + "|--:" * (len(heads) - 1) + "|"
    return [f"| {' | '.join(heads)} |", bars, *(f"| {' | '.join(line)} |" for line in lines)]
