"""Load a learner's file: a few modules and builtins, with virtual time from its first line on.

This keeps mistakes in, not attackers: Python code can always reach more than it is given.  The
bounds that hold are those of its process (`course.judge`).
"""

from __future__ import annotations

import builtins
import importlib
import sys
from types import ModuleType
from typing import Any

from course.lesson import LOCK
from course.simulator.redis_client import name_scripts
from course.simulator.virtual import VIRTUAL

MODULES = (
    "__future__", "collections", "contextlib", "dataclasses", "enum", "functools", "hashlib",
    "itertools", "course", "math", "psycopg", "pymemcache", "random", "redis", "string",
    "threading", "time", "typing", "uuid",
)  # fmt: skip
"""What a lock may import, with the modules inside of them."""

FORBIDDEN = ("breakpoint", "compile", "eval", "exec", "exit", "help", "input", "open", "quit")

NAME = "my_lock"


class Unusable(Exception):
    """The file cannot be judged; the message says why, in one line."""


class OwnLock:
    """A learner's lock: the last class of the file that has the methods.

    Each call runs the whole file anew and makes a lock of what it defines, because clients are
    processes of their own: what the file keeps in its globals and classes, only one client has.
    A class with `acquire` and `release` is accepted in place of `lock` and `unlock`.
    """

    def __init__(self, source: str, filename: str, methods: tuple[str, ...]) -> None:
        try:
            self._code = compile(source, filename, "exec", dont_inherit=True)
        except SyntaxError as problem:
            raise Unusable(f"line {problem.lineno}: {problem.msg}") from None
        self._wanted = [methods, LOCK] if methods == ("lock", "unlock") else [methods]
        self._kind = self._load()

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Make a lock for one client."""
        return self._load()(*args, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kind, name)

    def _load(self) -> type:
        module = ModuleType(NAME)
        sys.modules[NAME] = module  # dataclasses look there
        module.__dict__["__builtins__"] = dict(BUILTINS)
        exec(self._code, module.__dict__)
        name_scripts(module)
        classes = [
            value
            for value in vars(module).values()
            if isinstance(value, type) and value.__module__ == NAME and self._has_methods(value)
        ]
        if not classes:
            raise Unusable(f"no class in it has the methods {' and '.join(self._wanted[0])}")
        return classes[-1]

    def _has_methods(self, kind: type) -> bool:
        return any(
            all(callable(getattr(kind, name, None)) for name in names) for names in self._wanted
        )


def _import(
    name: str, _globals: Any = None, _locals: Any = None, names: Any = (), level: int = 0
) -> Any:
    allowed = any(name == one or name.startswith(f"{one}.") for one in MODULES)
    if level or not allowed:
        raise Unusable(f"it may not import {name or 'relatively'}, only {', '.join(MODULES)}")
    found = importlib.import_module(name)
    if not names:
        found = sys.modules[name.partition(".")[0]]
    if found in VIRTUAL:
        return VIRTUAL[found].copy()
    copy = ModuleType(found.__name__)  # what one client sets in a module, no other sees
    copy.__dict__.update(vars(found))
    return copy


def _print(*_: object, **__: object) -> None:
    """Print nothing: the search calls the lock thousands of times."""


BUILTINS = {name: value for name, value in vars(builtins).items() if name not in FORBIDDEN} | {
    "__import__": _import,
    "print": _print,
}
