"""Load a learner's file: a few modules and builtins, with virtual time from its first line on.

This keeps mistakes in, not attackers: Python code can always reach more than it is given.  The
bounds that hold are those of its process (`course.exercises.judge`).
"""

from __future__ import annotations

import builtins
import importlib
import sys
from types import ModuleType
from typing import Any

from course.simulator.redis_client import SCRIPT_NAMES
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


def load(source: str, filename: str, *methods: str) -> type:
    """Run the file; return the last class in it that has the methods.

    A class with `acquire` and `release` is accepted in place of `lock` and `unlock`.
    """
    module = ModuleType(NAME)
    sys.modules[NAME] = module  # dataclasses look there
    module.__dict__["__builtins__"] = {
        name: value for name, value in vars(builtins).items() if name not in FORBIDDEN
    } | {"__import__": _import, "print": _print}
    try:
        exec(compile(source, filename, "exec", dont_inherit=True), module.__dict__)
    except SyntaxError as problem:
        raise Unusable(f"line {problem.lineno}: {problem.msg}") from None
    names = vars(module).items()
    SCRIPT_NAMES.update(
        {
            value: f"script {name}"
            for name, value in names
            if isinstance(value, str) and "redis.call" in value
        }
    )
    classes = [
        value
        for _, value in names
        if isinstance(value, type) and value.__module__ == NAME and _has(value, methods)
    ]
    if not classes:
        raise Unusable(f"no class in it has the methods {' and '.join(methods)}")
    return classes[-1]


def _has(kind: type, methods: tuple[str, ...]) -> bool:
    wanted = [methods, ("acquire", "release")] if methods == ("lock", "unlock") else [methods]
    return any(all(callable(getattr(kind, name, None)) for name in names) for names in wanted)


def _import(
    name: str, _globals: Any = None, _locals: Any = None, names: Any = (), level: int = 0
) -> Any:
    allowed = any(name == one or name.startswith(f"{one}.") for one in MODULES)
    if level or not allowed:
        raise Unusable(f"it may not import {name or 'relatively'}, only {', '.join(MODULES)}")
    module = importlib.import_module(name)
    if module in VIRTUAL:
        return VIRTUAL[module]
    return module if names else importlib.import_module(name.partition(".")[0])


def _print(*_: object, **__: object) -> None:
    """Print nothing: the search calls the lock thousands of times."""
