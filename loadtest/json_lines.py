"""Files of JSON lines that several processes write while they may be killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, TypeVar

from msgspec import Meta
from msgspec.json import Decoder

Whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""A whole number as a database stores it."""

T = TypeVar("T")


def read(path: Path, decoder: Decoder[T], error: type[ValueError]) -> Iterator[tuple[int, T]]:
    """Yield the number of each line and what it says.

    A torn last line is what a killed process leaves, and is passed over. Any other line that cannot
    be decoded raises this error, which names the file and the line.
    """
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            if not raw.endswith(b"\n"):
                return
            try:
                line = decoder.decode(raw)
            except (ValueError, RecursionError) as problem:
                raise error(f"{path}:{number}: cannot be understood: {problem!r}") from problem
            yield number, line
