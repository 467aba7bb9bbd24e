"""A web server of a rush: runs the learner's file in the sandbox, for one request after the other.

`course/rush.py` starts it and speaks to it through its standard input and output, in lines of JSON.
It is sent a request and answers with what the file returns. Before that the file's connection may
ask it to execute statements, which it does on a real connection.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Any, Self

import psycopg

from course.allowed import Unusable
from course.judge import (
    MEMORY,
    READY,
    SECONDS,
    SECONDS_PER_CLIENT,
    OwnLock,
    Printed,
    failed,
    load,
    says,
)
from course.lesson import Lesson, find
from course.plan import ERROR_PAGE
from course.sandbox import confine
from course.simulator.history import Say
from course.simulator.sql import Unknown
from course.simulator.table import Result

MOST_SECONDS = 180
"""Longer than any rush."""

LONGEST_ANSWER = 80
"""Characters."""


class Line:
    """The pipes to the process that holds the rush."""

    def __init__(self, reads: IO[bytes], writes: IO[bytes]) -> None:
        self._reads, self._writes = reads, writes

    def hear(self) -> dict[str, Any] | None:
        """Return the next line; None at the end."""
        line = self._reads.readline()
        return json.loads(line) if line else None

    def tell(self, **values: object) -> None:
        """Write a line."""
        self._writes.write(json.dumps(values, default=str).encode() + b"\n")
        self._writes.flush()

    def ask(self, what: str, **values: object) -> dict[str, Any]:
        """Let something be done for a connection; return the answer, or raise its error."""
        self.tell(do=what, **values)
        answer = self.hear()
        if answer is None:
            raise SystemExit
        if "raise" in answer:
            name = answer["raise"]
            kind = Unknown if name == "Unknown" else getattr(psycopg.errors, name, psycopg.Error)
            raise kind(answer["text"])
        return answer


class RemoteConnection:
    """Has the interface of the simulated connection (`TableConnection`)."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._number = line.ask("connect")["number"]

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Result:
        """Run a statement; raise what psycopg raises."""
        answer = self._line.ask(
            "execute", number=self._number, statement=statement, values=list(values)
        )
        return Result(answer["rowcount"], [tuple(row) for row in answer["rows"]])

    def commit(self) -> None:
        """End the transaction: all see what it has written."""
        self._line.ask("commit", number=self._number)

    def rollback(self) -> None:
        """End the transaction: nothing of it stays."""
        self._line.ask("rollback", number=self._number)

    def close(self) -> None:
        """End the connection, and its transaction."""
        self._line.ask("close", number=self._number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.commit()
        with suppress(psycopg.Error):  # it may be lost
            self.rollback()
            self.close()


def serve(line: Line, lesson: Lesson, source: str, filename: str, say: Say) -> None:
    """Answer requests until none comes any more, or the file fails."""
    printed = Printed()
    try:
        kind = OwnLock(source, filename, lesson.plan, printed).lock
    except Unusable as problem:
        text, *values = problem.args
        line.hear()
        line.tell(error=f"{filename}: {say(text) % tuple(values)}", output="")
        return
    while (request := line.hear()) is not None:
        signal.setitimer(signal.ITIMER_PROF, SECONDS_PER_CLIENT)
        try:
            answer = kind(lambda: RemoteConnection(line)).buy(request["buyer"], request["key"])
        except psycopg.OperationalError:
            answer = ERROR_PAGE
        except Exception as problem:  # noqa: BLE001  # whatever the file raises
            verdict = failed(problem, filename, say)
            line.tell(error=verdict.error, output=verdict.output + printed.text)
            return
        line.tell(answer=str(answer)[:LONGEST_ANSWER])


def main() -> None:
    """Load what the file may use, and serve in the sandbox."""
    slug, filename, language = sys.argv[1:]
    lesson, say = find(slug), says(language)
    lesson.plan  # noqa: B018 - loads it, while files can be opened
    # Of their own numbers: in the sandbox the usual ones lead nowhere.
    reads, writes = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    source = json.loads(reads.readline())["source"]
    load(source)
    print(READY, flush=True)

    # For a file that never stops sleeping, should nobody be left to end this process.
    signal.alarm(MOST_SECONDS)

    def work(_pipe: int) -> None:
        serve(Line(reads, writes), lesson, source, filename, say)

    outcome = confine(work, memory=MEMORY, seconds=SECONDS)
    sys.stdout.write(json.dumps({"ended": outcome.code, "isolated": outcome.isolated}) + "\n")


if __name__ == "__main__":
    main()
