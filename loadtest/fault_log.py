"""The log of the faults of a run, a JSON line for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from loadtest import json_lines
from loadtest.json_lines import Whole


class FaultLogError(ValueError):
    """A fault log that cannot be read; says the file and the line."""


class Injected(msgspec.Struct):
    """An injected fault; times in ns of the monotonic clock.

    Attributes:
        did: what was done.
        error: why injection or healing failed; empty on success.
        leaves_doubt: whether some requests of a shop that sells get no answer.
        healed: whether it is over.
        lost_at: when a server was lost, where injecting takes longer than that.
    """

    fault: str
    start: Whole
    end: Whole
    did: Any = msgspec.field(default_factory=dict)
    error: str = ""
    leaves_doubt: bool = True
    healed: bool = True
    lost_at: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return a line of the log."""
        return {
            "fault": self.fault,
            "start": self.start,
            "end": self.end,
            "seconds": round((self.end - self.start) / 1e9, 2),
            "did": self.did,
            "error": self.error,
            "leaves_doubt": self.leaves_doubt,
        }


_DECODER = msgspec.json.Decoder(Injected)


def read_faults(path: Path) -> Iterator[Injected]:
    """Read a log; there are no faults without one. Raises `FaultLogError`."""
    if path.exists():
        yield from (fault for _, fault in json_lines.read(path, _DECODER, FaultLogError))
