"""What a shop did with each purchase, by its own clock readings.

A JSON line per purchase:

    {"key":"0b54…","process":4711,"queued":81,"begun":95,"committed":102,"batch":3}

The shop received it at `queued` and answered at `committed`; all times are nanoseconds of the
machine's monotonic clock, as in the histories. If it was sold in a batch, `begun` and `committed`
are those of the batch's transaction, and `batch` is its number in this process. Otherwise both are
null.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import msgspec

from loadtest import json_lines


class ServedError(ValueError):
    """A line that cannot be read; says the file and the line."""


class Served(msgspec.Struct, frozen=True):
    """One purchase as the shop saw it. Times are ns."""

    key: str
    process: int
    queued: int
    begun: int | None
    committed: int
    batch: int | None


_DECODER = msgspec.json.Decoder(Served)

ServedByKey = dict[str, list[Served]]
"""The purchases by idempotency key; a key that was sent again has several."""


def read_served(paths: Iterable[Path]) -> ServedByKey:
    """Read the files of all processes.

    Raises:
        ServedError: a line is none of these.
        OSError: a file cannot be read.
    """
    found: defaultdict[str, list[Served]] = defaultdict(list)
    for path in paths:
        for _, served in json_lines.read(path, _DECODER, ServedError):
            found[served.key].append(served)
    return dict(found)
