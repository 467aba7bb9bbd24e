"""P24 against a draw that is right, and against every way of being wrong."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from loadtest.checker import FAIL, PASS, UNKNOWN, judge
from loadtest.checker import snapshot as s
from loadtest.checker.verdict import Finding
from loadtest.files import RunFiles

SEED, SOURCE, VALUE = bytes(range(32)), "lottery", "4 8 15"
DRAW, BUYERS, UNITS = "7", 12, 3
STARTS, ENDS, CLOSED = 1_000_000, 2_000_000, 2_010_000
SECOND = 1_000_000_000


PUBLISHED = s.Draw(
    id=DRAW,
    total=UNITS,
    available=0,
    starts_at=STARTS,
    ends_at=ENDS,
    commitment=hashlib.sha256(SEED).hexdigest(),
    source=SOURCE,
    closed=CLOSED,
    seed=SEED.hex(),
    public_value=VALUE,
)


def number_bytes(number: int) -> bytes:
    return number.to_bytes(8, "big")


@dataclass
class World:
    """A run: what the buyers were told, and the shop's tables.

    Attributes:
        calls: lines of the history, two for each call.
        draw: the draw.
        entries: the lines of its list.
        wins: its winners.
    """

    calls: list[dict[str, Any]] = field(default_factory=list)
    entries: list[s.Entry] = field(default_factory=list)
    wins: list[s.Win] = field(default_factory=list)
    draw: s.Draw = PUBLISHED

    def call(self, op: str, buyer: str, event: str, status: int, **told: Any) -> None:
        """Add a call, later than those before."""
        time = 10 * len(self.calls) + 10
        name = f"c{len(self.calls)}"
        begun = {"event": "invoke", "time": time, "call": name, "op": op, "client": buyer}
        self.calls.append({**begun, "buyer": buyer, "sale": DRAW})
        ended = {"event": event, "time": time + 5, "call": name, "status": status, "code": ""}
        self.calls.append({**ended, "order": None, **told})

    def enter(self, buyer: str, status: int = 201) -> None:
        """Enter a buyer, who is told a receipt."""
        mark = hashlib.sha256(f"{buyer} {len(self.entries)}".encode()).hexdigest()
        self.entries.append(s.Entry(DRAW, 0, buyer, "", at=STARTS + len(self.entries), mark=mark))
        self.chain()
        entry = self.entries[-1]
        receipt = {"number": entry.number, "hash": entry.hash, "mark": entry.mark}
        self.call("enter", buyer, "ok", status, receipt=receipt)

    def withdraw(self, buyer: str, number: int) -> None:
        """Withdraw a buyer's entry."""
        self.entries.append(s.Entry(DRAW, 0, buyer, "", withdraws=number))
        self.chain()
        self.call("withdraw", buyer, "ok", 204)

    def chain(self) -> None:
        """Number the lines and compute their hashes; the draw's last hash is that of the last."""
        start = bytes.fromhex(self.draw.commitment) + self.draw.source.encode()
        running = hashlib.sha256(start).digest()
        for number, line in enumerate(self.entries, start=1):
            content = b"\0" + bytes.fromhex(line.mark)
            if line.withdraws:
                content = b"\1" + number_bytes(line.withdraws)
            running = hashlib.sha256(running + number_bytes(number) + content).digest()
            self.entries[number - 1] = replace(line, number=number, hash=running.hex())
        self.draw = replace(self.draw, length=len(self.entries), last_hash=running.hex())

    def order(self) -> list[int]:
        """Return the numbers that take part, in the order of the draw."""
        key = SEED + bytes.fromhex(self.draw.last_hash) + VALUE.encode()
        gone = {line.withdraws for line in self.entries}
        numbers = [line.number for line in self.entries if not line.withdraws]
        left = [number for number in numbers if number not in gone]
        return sorted(left, key=lambda each: hmac.digest(key, number_bytes(each), "sha256"))

    def win(self, place: int, at: int, gone: int = 0) -> None:
        """Let a place win."""
        number = self.order()[place - 1]
        self.wins.append(s.Win(DRAW, number, f"o{place}", 1, CLOSED + at, gone and CLOSED + gone))

    def change(self, position: int, **values: Any) -> None:
        """Give a win other values."""
        self.wins[position] = replace(self.wins[position], **values)

    def judged(self, folder: Path) -> Finding:
        """Judge the run."""
        files = RunFiles(folder)
        (folder / "w0.jsonl").write_text("".join(json.dumps(line) + "\n" for line in self.calls))
        rows = [self.draw, *self.entries, *self.wins]
        s.write(files.final, s.Header(10 * SECOND, clock=ENDS + 10_000_000), rows)
        return judge(files, properties=["P24"])["P24"]


def a_run() -> World:
    """Twelve enter, one withdraws and comes back, one withdraws; of five winners two gave up."""
    world = World()
    for number in range(BUYERS):
        world.enter(f"b{number}")
    world.withdraw("b3", 4)
    world.enter("b3")
    world.withdraw("b5", 6)
    world.win(1, 10, gone=50)
    world.win(2, 10)
    world.win(3, 10, gone=90)
    world.win(4, 60)
    world.win(5, 95)
    return world


def winner_out_of_order(world: World) -> None:
    world.wins.pop()
    world.win(7, 95)


def later_place_first(world: World) -> None:
    world.change(3, at=CLOSED + 96)


def passed_over_while_it_held(world: World) -> None:
    """The first place still had its unit when the fourth got one."""
    world.change(0, gone=CLOSED + 70)


def oversold_at_the_end(world: World) -> None:
    world.change(0, gone=0)


def won_twice(world: World) -> None:
    world.wins.append(replace(world.wins[1], order="o99", at=CLOSED + 97))
    world.change(4, gone=CLOSED + 96)


def won_without_an_entry(world: World) -> None:
    world.change(1, number=6)


def won_before_the_close(world: World) -> None:
    world.change(0, at=CLOSED - 1)


def won_before_the_order_was_public(world: World) -> None:
    world.draw = replace(world.draw, public_value="")


def two_units_for_one(world: World) -> None:
    world.change(1, quantity=2)


def units_left_and_nobody_asked(world: World) -> None:
    world.change(4, gone=CLOSED + 98)
    world.draw = replace(world.draw, available=1)


def unit_lost(world: World) -> None:
    world.change(4, gone=CLOSED + 98)


def another_seed(world: World) -> None:
    world.draw = replace(world.draw, commitment=hashlib.sha256(b"another").hexdigest())


def line_dropped(world: World) -> None:
    del world.entries[5]


def line_dropped_and_chain_made_anew(world: World) -> None:
    del world.entries[4]
    world.chain()


def line_added_at_the_end(world: World) -> None:
    world.entries.append(s.Entry(DRAW, 0, "b99", "", at=ENDS - 1, mark="00" * 32))
    world.chain()


def lines_exchanged(world: World) -> None:
    world.entries[0], world.entries[1] = world.entries[1], world.entries[0]
    world.chain()


def mark_of_another(world: World) -> None:
    world.entries[2] = replace(world.entries[2], mark="00" * 32)
    world.chain()


def entered_after_the_end(world: World) -> None:
    world.entries[11] = replace(world.entries[11], at=ENDS + 1)


def entered_long_after_the_close(world: World) -> None:
    world.calls[22]["time"] = 11 * SECOND
    world.calls[23]["time"] = 12 * SECOND
    world.calls[22:] = [*world.calls[24:], *world.calls[22:24]]


def two_entries_of_a_buyer(world: World) -> None:
    world.entries[1] = replace(world.entries[1], buyer="b0")


def number_of_two_buyers(world: World) -> None:
    world.calls[2]["buyer"] = world.calls[0]["buyer"]
    world.calls[1]["receipt"] = world.calls[5]["receipt"]


def withdrawal_lost(world: World) -> None:
    world.entries.pop()
    world.chain()


def withdrawn_by_nobody(world: World) -> None:
    world.entries[-1] = replace(world.entries[-1], withdraws=4)
    world.chain()


def last_hash_of_another_list(world: World) -> None:
    world.draw = replace(world.draw, last_hash="00" * 32)


PLANTS: dict[str, Callable[[World], None]] = {
    plant.__name__.replace("_", " "): plant
    for plant in (
        winner_out_of_order,
        later_place_first,
        passed_over_while_it_held,
        oversold_at_the_end,
        won_twice,
        won_without_an_entry,
        won_before_the_close,
        two_units_for_one,
        won_before_the_order_was_public,
        units_left_and_nobody_asked,
        unit_lost,
        another_seed,
        line_dropped,
        line_dropped_and_chain_made_anew,
        line_added_at_the_end,
        lines_exchanged,
        mark_of_another,
        entered_after_the_end,
        entered_long_after_the_close,
        two_entries_of_a_buyer,
        number_of_two_buyers,
        withdrawal_lost,
        withdrawn_by_nobody,
        last_hash_of_another_list,
    )
}
"""Ways to damage a run, so that P24 must fail."""

SAYS = {
    "winner out of order": "passed over",
    "later place first": "after a later place",
    "passed over while it held": "4 winners for 3 units",
    "won twice": "has won 2 times",
    "won without an entry": "without an entry",
    "won before the close": "before the draw was closed",
    "two units for one": "holds 2 units",
    "units left and nobody asked": "never got one",
    "line dropped and chain made anew": "is not in the list",
    "line added at the end": "only 13 calls",
    "entered after the end": "outside the window",
    "entered long after the close": "after the close",
    "two entries of a buyer": "2 entries that count",
    "number of two buyers": "2 buyers",
    "withdrawal lost": "had withdrawn it",
    "another seed": "not the one that was committed to",
}
"""What is said about some of them: the clause that is meant has found it."""


def test_draw_that_is_right_passes(tmp_path: Path) -> None:
    finding = a_run().judged(tmp_path)

    assert finding.verdict == PASS, finding
    assert finding.detail == "13 entries, 13 receipts that agree, 5 winners in order"


def test_draw_without_receipts_is_unknown(tmp_path: Path) -> None:
    assert World().judged(tmp_path).verdict == UNKNOWN


@pytest.mark.parametrize("plant", PLANTS)
def test_planted_violation_turns_the_draw_red(plant: str, tmp_path: Path) -> None:
    world = a_run()
    PLANTS[plant](world)

    finding = world.judged(tmp_path)

    assert finding.verdict == FAIL
    if said := SAYS.get(plant):
        assert any(said in problem.text for problem in finding.problems), finding.problems
