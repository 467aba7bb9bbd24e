"""What a learner's file may name and import: the part of Python that a lock needs.

The file runs in the same interpreter as the search that judges it. So that it judges nothing
itself, it gets no way to what lies around it: no attribute with two underscores but the usual
methods, no frame or traceback, no private attribute of what is not its own, and of each module
only the public names that belong to it. That is checked in the file's text (`refusal`) and by what
it is given (`Given`, `BUILTINS`). It keeps cheats away; against harm there is `course/sandbox.py`.
"""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from course.simulator.history import _
from course.simulator.virtual import VIRTUAL

REQUIRED = (
    "__future__", "collections", "contextlib", "course.lessons", "dataclasses", "enum",
    "functools", "hashlib", "itertools", "math", "psycopg", "random", "redis", "string",
    "threading", "time", "typing", "uuid",
)  # fmt: skip

OPTIONAL = ("pymemcache",)
"""For the names of its classes only: `make demo` does not install it, and no lock needs it, because
a lock is given its client."""

MODULES = (*REQUIRED, *(name for name in OPTIONAL if importlib.util.find_spec(name)))
"""What a lock may import, with the modules inside of them."""

NOT_GIVEN = {
    # They read attributes or evaluate text that nothing has checked.
    "string": {"Formatter"},
    "typing": {"get_type_hints", "ForwardRef"},
    "functools": {"singledispatch", "singledispatchmethod"},
    # They pass frames to a function of the file.
    "threading": {"settrace", "setprofile", "settrace_all_threads", "setprofile_all_threads"},
    "dataclasses": {"FunctionType"},
}
"""Names of modules that a file does without."""

METHODS = frozenset(
    f"__{name}__"
    for name in (
        "init",
        "new",
        "enter",
        "exit",
        "call",
        "repr",
        "str",
        "eq",
        "hash",
        "len",
        "iter",
        "next",
        "bool",
        "del",
        "name",
        "doc",
        "class",
        "slots",
        "all",
        "post_init",
        "contains",
    )
)
"""Names with two underscores that a file may use; it may define any method."""

FRAMES = ("tb_", "f_", "gi_", "cr_", "ag_", "co_")
"""How the attributes of tracebacks, frames, generators and code begin."""

FORBIDDEN = frozenset({"breakpoint", "compile", "eval", "exec", "exit", "help", "input", "open",
                       "quit", "vars", "dir", "memoryview"})  # fmt: skip


class Unusable(Exception):
    """The file cannot be judged; a text says why, in one line, with the values that follow it."""


def is_allowed(name: str) -> bool:
    """Return whether a file may import this module."""
    return any(name == one or name.startswith(f"{one}.") for one in MODULES)


def refuse(tree: ast.AST) -> None:
    """Raise `Unusable` for the first name in a file that leads out of it."""
    own = set(_defined(tree))
    for node in ast.walk(tree):
        for name in _names(node):
            if not _is_fine(name, own):
                line = getattr(node, "lineno", 1)
                raise Unusable(_("line %s: a lock does without the name %s"), line, name)


def _names(node: ast.AST) -> Iterator[str]:
    """Yield the names of attributes and imports that a node reads."""
    if isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.MatchClass):
        yield from node.kwd_attrs
    elif isinstance(node, ast.ImportFrom):
        if node.module != "__future__":
            yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.Name) and node.id.startswith("__"):
        yield node.id


def _defined(tree: ast.AST) -> Iterator[str]:
    """Yield the private names that a file, or a lesson that it builds on, gives to its things."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("course.lessons."):
            yield from _names_of(sys.modules.get(str(node.module)))
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def _names_of(module: ModuleType | None) -> Iterator[str]:
    for kind in vars(module).values() if module else ():
        for value in vars(kind).values() if isinstance(kind, type) else ():
            if isinstance(value, FunctionType) and value.__module__.startswith("course.lessons."):
                yield value.__name__
                yield from value.__code__.co_names


READ_BY_TEXT = ("format", "format_map")
"""Methods of texts that read attributes whose names stand in the text."""


def _is_fine(name: str, own: set[str]) -> bool:
    if name in READ_BY_TEXT:
        return False
    if name.startswith("__"):
        return name in METHODS
    if name.startswith("_"):
        return name in own
    return not name.startswith(FRAMES)


def _checked(name: object) -> str:
    if not isinstance(name, str) or not _is_fine(name, set()):
        raise AttributeError(f"a lock does without the name {name}")
    return str(name)


def _getattr(where: object, name: str, *default: object) -> object:
    return getattr(where, _checked(name), *default)


def _setattr(where: object, name: str, value: object) -> None:
    setattr(where, _checked(name), value)


def _delattr(where: object, name: str) -> None:
    delattr(where, _checked(name))


def _hasattr(where: object, name: str) -> bool:
    return hasattr(where, _checked(name))


class Given(ModuleType):
    """A module as one client has it: what it sets there, no other sees.

    It shows the public names of the real one that are its own, and the modules inside of it that a
    file may import.
    """

    def __init__(self, real: Any, name: str) -> None:
        super().__init__(name)
        _real[id(self)] = real

    def __getattr__(self, name: str) -> Any:
        if name == "__path__":
            raise AttributeError(name)
        module = ModuleType.__getattribute__(self, "__name__")
        missing = AttributeError(f"{module} has no {name} for a lock")
        if name.startswith("_") and name != "__all__":
            raise missing
        if name in NOT_GIVEN.get(module, ()):
            raise missing
        real = _real[id(self)]
        value = getattr(real, name)
        if any(value is function for function in READ_ATTRIBUTES):
            raise missing
        if isinstance(value, ModuleType):
            if not is_allowed(value.__name__):
                raise missing
            return given(value.__name__)
        is_function = isinstance(value, FunctionType | BuiltinFunctionType)
        if is_function and isinstance(real, ModuleType) and not _is_of(value, module):
            raise missing
        return value


_real: dict[int, Any] = {}
"""The real modules of those that are given, where no attribute leads to."""

READ_ATTRIBUTES = (functools.update_wrapper, functools.wraps)
"""Functions, in whatever module, that read attributes by names which nothing has checked."""

SHARED = ("functools", "itertools", "collections", "typing", "math", "time", "contextlib")
"""Packages of Python whose functions may stand in other modules, too."""


def _is_of(function: Any, module: str) -> bool:
    home = str(getattr(function, "__module__", None) or module)
    root = home.lstrip("_").partition(".")[0]
    return root == module.partition(".")[0] or root in SHARED


def given(name: str) -> Given:
    """Return a module for one client."""
    real = sys.modules[name]
    return Given(VIRTUAL.get(real, real), name)


def import_for_lock(
    name: str, _globals: Any = None, _locals: Any = None, names: Any = (), level: int = 0
) -> Any:
    """Import a module as a file may: the stand-in for `__import__`."""
    if level or not (is_allowed(name) or (name == "course" and not names)):
        raise Unusable(_("it may not import %s, only %s"), name or "relatively", ", ".join(MODULES))
    importlib.import_module(name)
    return given(name if names else name.partition(".")[0])


KEEPS_SCRIPTS = "redis.lock"
"""redis-py's own lock keeps its scripts in its class when it is first used."""


def fingerprint() -> dict[str, Any]:
    """Return how the classes and tables of the given modules are, to see if a file changes one.

    They are the same for all clients, which share nothing but the server.
    """
    found: dict[str, Any] = {}
    for name, module in list(sys.modules.items()):
        for key, value in list(vars(module).items()) if is_allowed(name) else ():
            if isinstance(value, type) and value.__module__ != KEEPS_SCRIPTS:
                own = {one: id(it) for one, it in vars(value).items() if not one.startswith("__")}
                found[f"{name}.{key}"] = own
            elif isinstance(value, dict | list | set) and not key.startswith("_"):
                found[f"{name}.{key}"] = len(value)
    return found


def changed(before: Mapping[str, Any]) -> str:
    """Return the name of something shared that has changed since; empty if nothing has."""
    now = fingerprint()
    return next((name for name, was in before.items() if now.get(name, was) != was), "")


def builtins_with(say: Callable[..., None]) -> Mapping[str, Any]:
    """Return what is built in for a file; `say` is its `print`."""
    kept = {name: value for name, value in vars(builtins).items() if name not in FORBIDDEN}
    return kept | {
        "__import__": import_for_lock,
        "getattr": _getattr,
        "setattr": _setattr,
        "delattr": _delattr,
        "hasattr": _hasattr,
        "print": say,
    }
