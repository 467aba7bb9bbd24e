"""Errors that the shop's web processes logged during a run, so that a verdict can name them."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

MOST = 5
"""Distinct errors that are told of; the first ones, which the others often follow from."""

LONGEST = 300
"""Characters of one error."""

KEPT = "server-errors.log"
"""In the proof's folder: each distinct error as it was logged the first time."""

_TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
_RECORD = re.compile(
    rf"(?:{_TIME},\d+ (?P<level>[A-Z]+) \d+ [\w.]+: (?P<message>.*))"
    # gunicorn's own
    rf"|(?:\[{_TIME} [+-]\d+\] \[\d+\] \[(?P<its_level>[A-Z]+)\] (?P<its_message>.*))"
)
_TRACEBACK = "Traceback (most recent call last):"


class ServerErrors:
    """The errors logged between the creation of this object and `close`.

    Args:
        log: the file, which may not be there yet and may be rotated once meanwhile; None: there is
            none that could be read.

    Attributes:
        first: of each distinct error, its exception's last line, or the message if there was none,
            and the whole record of the first time.
        times: how often each was logged.
    """

    def __init__(self, log: Path | None) -> None:
        self._log = log
        self._file: BinaryIO | None = None
        self.first: dict[str, tuple[str, str]] = {}
        self.times: Counter[str] = Counter()
        if log is not None and log.exists():
            self._file = log.open("rb")
            self._file.seek(0, os.SEEK_END)

    def close(self) -> None:
        """Read what was logged."""
        text = b"".join(self._read()).decode(errors="replace")
        *lines, _ = text.split("\n")  # the last one is not written to its end
        record: list[str] = []
        for line in lines:
            if _RECORD.match(line):
                self._add(record)
                record = []
            record.append(line)
        self._add(record)

    def told(self) -> list[str]:
        """The first distinct errors in a line each, with how often each was logged."""
        lines = [f"{self.times[alike]} × {what}" for alike, (what, _) in self.first.items()]
        if len(lines) > MOST:
            return [*lines[:MOST], f"and {len(lines) - MOST} other errors"]
        return lines

    def keep(self, folder: Path) -> Path | None:
        """Write each distinct error's first record into a folder; the file, None without errors."""
        if not self.first:
            return None
        path = folder / KEPT
        path.write_text("\n".join(logged for _, logged in self.first.values()) + "\n")
        return path

    def _read(self) -> Iterator[bytes]:
        """Yield the rest of the file that was there, and the one that has taken its name."""
        before = None
        if self._file is not None:
            with self._file as file:
                before = os.fstat(file.fileno())
                yield file.read()
        log = self._log
        if log is None or not log.exists():
            return
        if before is None or not os.path.samestat(before, log.stat()):
            yield log.read_bytes()

    def _add(self, record: list[str]) -> None:
        found = _RECORD.match(record[0]) if record else None
        if found is None or (found["level"] or found["its_level"]) not in {"ERROR", "CRITICAL"}:
            return
        message = found["message"] or found["its_message"] or ""
        what = (_exception(record) or message)[:LONGEST]
        # The same error about another order is the same error.
        alike = re.sub(r"\d+", "0", what)
        self.times[alike] += 1
        self.first.setdefault(alike, (what, "\n".join(record)))


def _exception(record: list[str]) -> str:
    """The line of the last exception of a record: the first behind the calls that led to it."""
    if _TRACEBACK not in record:
        return ""
    last = len(record) - record[::-1].index(_TRACEBACK)
    return next((line for line in record[last:] if line and not line.startswith(" ")), "")
