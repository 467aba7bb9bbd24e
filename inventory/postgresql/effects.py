"""Whether the current request may have changed anything yet.

A request that fails before its first COMMIT has changed nothing: an open transaction cannot commit
itself. It may be refused and sent again. After that, only the data can tell what became of it.
"""

from __future__ import annotations

from contextvars import ContextVar

_may_have: ContextVar[bool] = ContextVar("may_have", default=False)


def forget_effects() -> None:
    """Begin a request, which has changed nothing yet."""
    _may_have.set(False)


def note_effect() -> None:
    """Note that the request has sent a COMMIT, or has asked another system to do something."""
    _may_have.set(True)


def may_have_effects() -> bool:
    """Whether the request may have changed something."""
    return _may_have.get()
