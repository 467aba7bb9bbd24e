"""P24: a draw is fair, and nobody can tell otherwise from what was published.

Recomputed here from the buyers' receipts, the list and the published values alone, by the procedure
of the shop's document and with none of the shop's code.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator, Mapping
from typing import Any

from loadtest.checker.evidence import Evidence
from loadtest.checker.properties.property import Check, Need, Property
from loadtest.checker.verdict import Problem
from loadtest.shop import Level

Draw = Mapping[str, Any]


class FairDraw(Property):
    """Places follow from public data, winners from places, and receipts agree with the list."""

    id, name, level = "P24", "draw", Level.STOCK
    needs = Need.DRAWS
    asks = "Winners follow the public order, and every receipt agrees with the list."
    fails = "winners out of order, entries that were lost, added or moved"
    planted = "winner out of order"
    counts = """
        SELECT (SELECT count(*) FROM receipt) AS receipts, count(*) AS wins,
               (SELECT count(*) FROM entry WHERE snapshot = 0 AND withdraws = 0) AS entries
        FROM win WHERE snapshot = 0
    """
    good = "{entries} entries, {receipts} receipts that agree, {wins} winners in order"
    nothing = "no buyer has a receipt"
    checks = (
        Check(
            "receipt of number {number} is not in the list of draw {draw}: {call}",
            """
            SELECT receipt.draw, receipt.number, receipt.call FROM receipt
            LEFT JOIN entry ON entry.snapshot = 0 AND entry.draw = receipt.draw
                AND entry.number = receipt.number AND entry.withdraws = 0
            WHERE entry.number IS NULL OR entry.hash <> receipt.hash OR entry.mark <> receipt.mark
            """,
        ),
        Check(
            "number {number} of draw {draw} was given to {times} buyers",
            """
            SELECT draw, number, count(DISTINCT buyer) AS times FROM receipt
            GROUP BY draw, number HAVING count(DISTINCT buyer) > 1
            """,
        ),
        Check(
            "draw {draw} has {entries} entries, and only {calls_made} calls may have made one",
            """
            SELECT draw, count(*) AS entries,
                   (SELECT count(*) FROM call WHERE op = 'enter' AND sale = draw
                    AND outcome <> 'fail') AS calls_made
            FROM entry WHERE snapshot = 0 AND withdraws = 0
            GROUP BY draw HAVING entries > calls_made
            """,
        ),
        Check(
            "number {number} of draw {draw} is in, though {call} had withdrawn it",
            """
            SELECT receipt.draw, receipt.number, gone.call FROM call AS gone
            JOIN receipt ON receipt.buyer = gone.buyer AND receipt.draw = gone.sale
            WHERE gone.op = 'withdraw' AND gone.outcome = 'ok'
              AND NOT EXISTS (SELECT 1 FROM call AS again WHERE again.op = 'enter'
                AND again.buyer = gone.buyer AND again.sale = gone.sale
                AND again."end" > gone.start)
              AND NOT EXISTS (SELECT 1 FROM entry WHERE snapshot = 0 AND draw = receipt.draw
                AND withdraws = receipt.number)
            """,
        ),
        Check(
            "number {number} of draw {draw} was entered outside the window",
            """
            SELECT entry.draw, number FROM entry JOIN draw ON draw.snapshot = 0
                AND draw.id = entry.draw
            WHERE entry.snapshot = 0 AND withdraws = 0
              AND (at < starts_at OR at >= ends_at OR (closed AND at > closed))
            """,
        ),
        Check(
            "call {call} entered draw {draw} though it began after the close",
            """
            SELECT receipt.call, receipt.draw FROM receipt
            JOIN draw ON draw.snapshot = 0 AND draw.id = receipt.draw
            JOIN snapshot ON snapshot.number = 0 AND snapshot.clock > 0
            WHERE receipt.new AND draw.closed
              AND snapshot.clock + (receipt.start - snapshot.taken_at) / 1000 > draw.closed + 50000
            """,
        ),
        Check(
            "buyer {owner} of draw {draw} has {times} entries that count",
            """
            SELECT draw, buyer AS owner, count(*) AS times FROM entry AS made
            WHERE snapshot = 0 AND withdraws = 0 AND NOT EXISTS (
                SELECT 1 FROM entry AS gone WHERE gone.snapshot = 0 AND gone.draw = made.draw
                AND gone.withdraws = made.number)
            GROUP BY draw, buyer HAVING count(*) > 1
            """,
        ),
        Check(
            "number {number} of draw {draw} has won {times} times",
            """
            SELECT draw, number, count(*) AS times FROM win WHERE snapshot = 0
            GROUP BY draw, number HAVING count(*) > 1
            """,
        ),
        Check(
            "number {number} of draw {draw} has won before the draw was closed",
            """
            SELECT win.draw, number FROM win JOIN draw ON draw.snapshot = 0 AND draw.id = win.draw
            WHERE win.snapshot = 0 AND (NOT closed OR at < closed)
            """,
        ),
        Check(
            "order {won} of draw {draw} holds {held} units, and not one",
            """
            SELECT draw, order_id AS won, quantity AS held FROM win
            WHERE snapshot = 0 AND quantity <> 1
            """,
        ),
    )

    def problems(self, evidence: Evidence) -> Iterator[Problem]:
        """What the tables show, and what is wrong when each draw is computed again."""
        yield from super().problems(evidence)
        for draw in evidence.facts("SELECT * FROM draw WHERE snapshot = 0"):
            entered, problems = _recompute(evidence, draw)
            yield from problems
            yield from _winners(evidence, draw, entered)


def _recompute(evidence: Evidence, draw: Draw) -> tuple[list[int], list[Problem]]:
    """Return the numbers that take part, and what in the list contradicts what was published."""
    problems: list[Problem] = []

    def wrong(says: str, **facts: Any) -> None:
        problems.append(Problem(says, {"draw": draw["id"], **facts}))

    commitment = bytes.fromhex(draw["commitment"])
    running = hashlib.sha256(commitment + draw["source"].encode()).digest()
    if draw["seed"] and hashlib.sha256(bytes.fromhex(draw["seed"])).digest() != commitment:
        wrong("the seed of draw {draw} is not the one that was committed to")
    entered: set[int] = set()
    count = 0
    for count, line in enumerate(_lines(evidence, draw), start=1):
        if line["number"] != count:
            wrong("the list of draw {draw} has no number {number}", number=count)
            break
        before = running + count.to_bytes(8, "big")
        if line["withdraws"]:
            running = hashlib.sha256(before + b"\1" + line["withdraws"].to_bytes(8, "big")).digest()
            if line["withdraws"] not in entered:
                wrong("number {number} of draw {draw} withdraws nobody", number=count)
            entered.discard(line["withdraws"])
        else:
            running = hashlib.sha256(before + b"\0" + bytes.fromhex(line["mark"])).digest()
            entered.add(count)
        if running.hex() != line["hash"]:
            wrong("the hash of number {number} of draw {draw} does not follow", number=count)
            break
    else:
        if count != draw["length"] or (draw["last_hash"] or running.hex()) != running.hex():
            wrong("the list of draw {draw} does not end with the last hash")
    return sorted(entered), problems


def _lines(evidence: Evidence, draw: Draw) -> Iterator[dict[str, Any]]:
    return (
        line
        for line in evidence.facts("SELECT * FROM entry WHERE snapshot = 0 ORDER BY number")
        if line["draw"] == draw["id"]
    )


def _winners(evidence: Evidence, draw: Draw, entered: list[int]) -> Iterator[Problem]:
    """What is wrong with who has won, and when."""
    wins = [
        win
        for win in evidence.facts("SELECT * FROM win WHERE snapshot = 0 ORDER BY at")
        if win["draw"] == draw["id"]
    ]
    facts = {"draw": draw["id"]}
    if not draw["seed"] or (draw["source"] and not draw["public_value"]):
        if wins:
            yield Problem("draw {draw} has winners, but its order is not public", facts)
        return
    key = bytes.fromhex(draw["seed"] + draw["last_hash"]) + draw["public_value"].encode()
    order = sorted(
        entered, key=lambda number: (hmac.digest(key, number.to_bytes(8, "big"), "sha256"), number)
    )
    places = {number: place for place, number in enumerate(order, start=1)}
    for win in wins:
        if win["number"] not in places:
            yield Problem(
                "number {number} of draw {draw} has won without an entry",
                {**facts, "number": win["number"]},
            )
    ranked = sorted((win for win in wins if win["number"] in places), key=_by(places))
    for expected, win in enumerate(ranked, start=1):
        place = places[win["number"]]
        if place > expected:
            yield Problem(
                "place {place} of draw {draw} has won, and place {passed} was passed over",
                {**facts, "place": place, "passed": expected},
            )
            break
    yield from _in_time(facts, draw, ranked, places)


def _in_time(
    facts: Draw, draw: Draw, ranked: list[dict[str, Any]], places: Mapping[int, int]
) -> Iterator[Problem]:
    latest = 0
    for win in ranked:
        place = places[win["number"]]
        if win["at"] < latest:
            yield Problem(
                "place {place} of draw {draw} has won after a later place",
                {**facts, "place": place},
            )
        latest = max(latest, win["at"])
        live = [
            winner
            for winner in ranked
            if winner["at"] <= win["at"] and not _gone(winner, win["at"])
        ]
        if len(live) > draw["total"]:
            yield Problem(
                "draw {draw} had {live} winners for {total} units when place {place} won",
                {**facts, "live": len(live), "total": draw["total"], "place": place},
            )
            break
    kept = [win for win in ranked if not win["gone"] or win["back"] > win["gone"]]
    if len(kept) + draw["available"] != draw["total"]:
        yield Problem(
            "draw {draw}: {kept} units are won and {available} left, of {total}",
            {**facts, "kept": len(kept), "available": draw["available"], "total": draw["total"]},
        )
    if draw["available"] and len(ranked) < len(places):
        yield Problem(
            "draw {draw}: {available} units are left, and place {place} never got one",
            {**facts, "available": draw["available"], "place": len(ranked) + 1},
        )


def _by(places: Mapping[int, int]) -> Any:
    return lambda win: (places[win["number"]], win["at"])


def _gone(win: Mapping[str, Any], at: int) -> bool:
    """Whether a winner had declined or expired by then, and had not paid late."""
    is_back = win["back"] and win["back"] <= at
    return bool(win["gone"]) and win["gone"] <= at and not is_back
