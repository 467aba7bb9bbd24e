"""Follow one request through the product's code with Python's profiler."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType

from lab.environment import PROJECT

ROOMS = ("shop", "inventory", "locking", "serving")
"""The packages that a walk follows; Django and other libraries are not counted."""


@dataclass(slots=True)
class Walk:
    """The files that a request entered.

    Attributes:
        request: its name.
        calls: of functions, by file, in the order in which the files were entered first.
        moves: calls from one file to another.
    """

    request: str
    calls: Counter[str] = field(default_factory=Counter)
    moves: int = 0

    def markdown(self) -> str:
        """Return the files as a table, with what each says about itself."""
        rows = [
            f"| {number} | `{file}` | {_subject(PROJECT / file)} |"
            for number, file in enumerate(self.calls, 1)
        ]
        return "\n".join(["| | file | what it is for |", "|--:|---|---|", *rows, ""])


def _subject(file: Path) -> str:
    """Return the first sentence of a module's docstring."""
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(docstring.split("\n\n")[0].split()).replace("``", "`")
    return re.split(r"(?<=\.) ", paragraph)[0]


@contextmanager
def walking(request: str) -> Iterator[Walk]:
    """Record the calls that this thread makes inside the block."""
    walk = Walk(request)
    files: dict[CodeType, str] = {}

    def file_of(frame: FrameType) -> str:
        code = frame.f_code
        if code not in files:
            files[code] = _file(code)
        return files[code]

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and (file := file_of(frame)):
            walk.calls[file] += 1
            walk.moves += file != _caller(frame)

    def _caller(frame: FrameType) -> str:
        above = frame.f_back
        while above is not None:
            if file := file_of(above):
                return file
            above = above.f_back
        return ""

    sys.setprofile(profile)
    try:
        yield walk
    finally:
        sys.setprofile(None)


def _file(code: CodeType) -> str:
    """Return the path of a function's file in the project; empty if it is not in a room."""
    path = Path(code.co_filename)
    if not path.is_relative_to(PROJECT):
        return ""
    inside = path.relative_to(PROJECT)
    return str(inside) if inside.parts[0] in ROOMS and "tests" not in inside.parts else ""
