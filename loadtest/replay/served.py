"""What a shop did with each purchase, by its own clock readings.

A JSON line per purchase:

    {"key":"0b54…","process":4711,"queued":81,"begun":95,"committed":102,"batch":3}

The shop received it at `queued` and answered at `committed`; all times are nanoseconds of the
machine's monotonic clock, as in the histories. If it was sold in a batch, `begun` and `committed`
are those of the batch's transaction, and `batch` is its number in this process. Otherwise both are
null.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class ServedError(ValueError):
    """A line that cannot be read; says the file and the line."""


class Served(NamedTuple):
    """One purchase as the shop saw it. Times are ns."""

    process: int
    queued: int
    begun: int | None
    committed: int
    batch: int | None


ServedByKey = dict[str, list[Served]]
"""The purchases by idempotency key; a key that was sent again has several."""


def read_served(paths: Iterable[Path]) -> ServedByKey:
    """Read the files of all processes.

    A torn last line is what a killed process leaves, and is passed over.

    Raises:
        ServedError: another line is none of these.
        OSError: a file cannot be read.
    """
    found: defaultdict[str, list[Served]] = defaultdict(list)
    for path in paths:
        with path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                if raw.endswith(b"\n"):
                    key, served = _parse(raw, path, number)
                    found[key].append(served)
    return dict(found)


def _parse(raw: bytes, path: Path, number: int) -> tuple[str, Served]:
    try:
        line = json.loads(raw)
        served = Served(*(line[name] for name in Served._fields))
        required = (served.process, served.queued, served.committed)
        optional = [each for each in (served.begun, served.batch) if each is not None]
        if not all(type(each) is int for each in (*required, *optional)):
            raise TypeError("a time is not a number")
        return line["key"] + "", served
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ServedError(f"{path}:{number}: not a served purchase: {error!r}") from error
