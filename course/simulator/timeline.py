"""A history as lines, for the terminal, the pages and programs."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from course.simulator.history import MICROSECONDS, Event, Kind, Say, Violation, _, said
from course.simulator.world import EPOCH

# Times of day are shown as seconds since the start: `@10.004` instead of 1700000010.004.
TIME_OF_DAY = re.compile(r"\b1[67]\d{8}(?:\.\d+)?\b")
MICROSECONDS_OF_DAY = re.compile(r"\b1[67]\d{14}\b")
# Their answers count down during a wait, but the rows still count as repeats.  The answer of
# acquire.lua to a waiter begins with 0.
COUNTING_DOWN = ("TTL", "PTTL", "acquire.lua", "shared_acquire.lua")
MAX_CYCLE = 12
START = EPOCH / MICROSECONDS


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a timeline, ready for display; `at` is in virtual microseconds."""

    at: int
    client: str
    server: str
    kind: str
    what: str
    answer: str

    def shape(self) -> tuple[Any, ...]:
        """Return what two rows share that a reader would see as repeats."""
        if self.what.startswith(COUNTING_DOWN):
            return self.client, self.kind, _blind(self.what), self.answer.startswith("0 ")
        return self.client, self.kind, _blind(self.what), _blind(self.answer)


def _blind(text: str) -> str:
    """Return the text without times of day and without the length of a wait."""
    return re.sub(r"@-?[\d.]+|\b\d\.\d{3}\b", "@", text)


def readable(value: Any, say: Say = str) -> str:
    """Return a command's words or an answer, for display."""
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, BaseException):
        return f"error: {value}"
    if isinstance(value, bytes):
        return _relative(value.decode(errors="replace"))
    if isinstance(value, float):
        return _relative(f"{value:.3f}".rstrip("0").rstrip("."))
    if isinstance(value, tuple | list):
        return _joined(readable(item, say) for item in value)
    return _relative(str(said(value, say)))


def _relative(text: str) -> str:
    text = MICROSECONDS_OF_DAY.sub(lambda m: f"@{int(m.group()) / 1e6 - START:.3f}", text)
    return TIME_OF_DAY.sub(lambda m: f"@{float(m.group()) - START:.3f}", text)


def reader(history: list[Event], say: Say = str) -> Callable[[Any], str]:
    """Return what shows a value, with the production lock's tokens as their owners."""
    owners = _owners(history)

    def show(value: Any) -> str:
        return TOKEN.sub(lambda found: owners.get(found[1], found[0]), readable(value, say))

    return show


def rows(history: list[Event], say: Say = str) -> list[Row]:
    """Return the history line by line."""
    show = reader(history, say)
    many = len({event.server for event in history if event.server not in ("", "resource")}) > 1
    found = []
    for event in history:
        answered = event.kind in (Kind.COMMAND, Kind.LOST) or event.answer is not None
        where = f"{event.server}: " if many and event.who and event.server else ""
        what, answer = where + show(event.what), show(event.answer) if answered else ""
        found.append(Row(event.at, event.who, event.server, event.kind.value, what, answer))
    return found


# The format of `locking.redis_lock.Tokens`, with or without the owner.
TOKEN = re.compile(r"\b([0-9a-f]{19,})(?::\w+)?")


def _owners(history: list[Event]) -> dict[str, str]:
    """Return the owners by token; a client's second token is A2, and so on."""
    owners: dict[str, str] = {}
    for event in history:
        words = event.what if isinstance(event.what, tuple) else ()
        for word in words:
            prefixed, colon, owner = str(word).partition(":")
            token = prefixed.rpartition("-")[2]  # "r-…" is a reader's
            if colon and len(token) >= 19 and TOKEN.fullmatch(token) and token not in owners:
                count = sum(name.rstrip("0123456789") == owner for name in owners.values())
                owners[token] = owner if not count else f"{owner}{count + 1}"
    return owners


def folded(lines: list[Row]) -> Iterator[Row | tuple[int, int]]:
    """Return the rows, with repeats replaced by (how many rows, time of the last)."""
    shapes = [line.shape() for line in lines]
    place = 0
    while place < len(lines):
        cycle, times = _repeats(shapes[place:])
        if times < 3:
            yield lines[place]
            place += 1
            continue
        yield from folded(lines[place : place + cycle])
        place += cycle * times
        yield (cycle * (times - 1), lines[place - 1].at)


def _repeats(shapes: list[tuple[Any, ...]]) -> tuple[int, int]:
    """Return the cycle at the start that repeats most: its length and number of repeats."""
    best = (1, 1)
    for cycle in range(1, MAX_CYCLE + 1):
        times = 1
        while shapes[cycle * times : cycle * (times + 1)] == shapes[:cycle]:
            times += 1
        if times > 1 and cycle * times > best[0] * best[1]:
            best = (cycle, times)
    return best


MARKS: dict[str, str] = {
    Kind.ENTER: "→ ",
    Kind.LEAVE: "← ",
    Kind.FAULT: "! ",
    Kind.VIOLATION: "✗ ",
    Kind.GIVEN: "• ",
}


COLOURS: dict[str, str] = {
    Kind.ENTER: "bold green",
    Kind.LEAVE: "green",
    Kind.FAULT: "yellow",
    Kind.VIOLATION: "bold white on red",
    Kind.LOST: "yellow",
    Kind.GIVE_UP: "magenta",
    Kind.SLEEP: "dim",
    Kind.NOTE: "dim",
    Kind.GIVEN: "cyan",
}


def print_timeline(console: Console, lines: list[Row], say: Say = str) -> None:
    """Print the timeline at the console's width, with long commands on several lines."""
    heads = (say(head) for head in (_("time"), _("client"), _("what"), _("answer")))
    table = Table(*heads, expand=False, box=None, pad_edge=False)
    table.columns[0].justify = "right"
    lost_word = say(_("lost"))
    for item in folded(lines):
        if isinstance(item, tuple):
            values = {"count": item[0], "at": f"{item[1] / MICROSECONDS:.3f}"}
            text = say(_("%(count)s more like these, until %(at)s s")) % values
            table.add_row("", "", Text(f"⋮ {text}", style="dim"), "")
            continue
        style = COLOURS.get(item.kind, "")
        lost = f"  ({lost_word})" if item.kind == Kind.LOST else ""
        table.add_row(
            f"{item.at / MICROSECONDS:.3f}",
            item.client or item.server,
            Text(MARKS.get(item.kind, "") + item.what, style=style),
            Text(item.answer + lost, style=style),
        )
    console.print(table)


def as_text(lines: list[Row], say: Say = str) -> str:
    """Return the timeline in plain text."""
    console = Console(file=io.StringIO(), width=100)
    with console.capture() as captured:
        print_timeline(console, lines, say)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def print_prose(console: Console, text: str) -> None:
    """Print paragraphs at the console's width, whatever the width they were written at."""
    for number, paragraph in enumerate(text.strip().split("\n\n")):
        if number:
            console.print()
        console.print(" ".join(paragraph.split()), highlight=False, markup=False)


def values_of(line: Row | Violation) -> dict[str, Any]:
    """Return a row or a failure as plain values, for programs; `at` in seconds."""
    return asdict(line) | {"at": line.at / MICROSECONDS}


def _joined(words: Iterable[str]) -> str:
    """Join words with spaces, but without spaces around a statement's commas and brackets."""
    return re.sub(r" ([,)])|(\() ", r"\1\2", " ".join(words))
