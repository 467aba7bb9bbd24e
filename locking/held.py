"""The leases that a handle knows of: who acquired them, and which belong to its `with` blocks."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, NamedTuple


class _Owned(list[Any]):
    """The leases that a handle keeps for one thread or task, the latest last."""

    __slots__ = ("__weakref__",)


class _Block(NamedTuple):
    """An open `with` block of a handle: its frame and code, its thread or task, and its lease."""

    frame: int
    code: CodeType
    caller: Callable[[], object]
    lease: Any


class Held:
    """The leases of a handle, by who acquired them and by `with` block.

    The handle keeps a lease alive, so that `handle.acquire()` followed by `handle.release()` works,
    for as long as the thread or task exists that acquired it.  The lease refers to the record
    weakly, so that all of them end when the program drops them.
    """

    __slots__ = ("_blocks", "_by_caller", "_for_anyone", "_in_vain", "_newest")

    def __init__(self) -> None:
        self._by_caller: weakref.WeakKeyDictionary[Any, _Owned] = weakref.WeakKeyDictionary()
        self._for_anyone = _Owned()
        self._newest: list[weakref.ref[Any]] = []
        self._in_vain: weakref.WeakSet[Any] = weakref.WeakSet()
        self._blocks: list[_Block] = []

    def add(self, caller: object | None, lease: Any) -> None:
        """Record a granted lease; a `caller` of None: a task that did nothing but acquire it."""
        if caller is None:
            mine: _Owned | None = self._for_anyone
        else:
            mine = self._by_caller.get(caller)
            if self._in_vain:
                self._in_vain.discard(caller)
        if mine is None:  # only the caller itself adds its first one
            mine = self._by_caller[caller] = _Owned()
        elif mine:
            mine[:] = [each for each in mine if each.remaining() > 0]
        mine.append(lease)
        lease._home = weakref.ref(mine)
        if len(self._newest) > 7:
            self._newest = [ref for ref in self._newest if _is_live(ref())]
        self._newest.append(weakref.ref(lease))

    def failed(self, caller: object) -> None:
        """Record that the caller asked and got nothing: it must not release another's lease."""
        self._in_vain.add(caller)

    def own(self, caller: object) -> Any:
        """Return the latest lease that the caller acquired and that is not released, or None."""
        mine = self._by_caller.get(caller) or self._for_anyone
        return mine[-1] if mine else None

    def latest(self, caller: object) -> Any:
        """Return the caller's latest lease, or else the handle's, which it may have been handed."""
        own = self.own(caller)
        if own is None and caller not in self._in_vain:
            return self.live()
        return own

    def live(self) -> Any:
        """Return the handle's latest valid lease, whoever acquired it; None if there is none."""
        leases = (ref() for ref in reversed(self._newest))
        return next((lease for lease in leases if _is_live(lease)), None)

    def enter(self, frame: FrameType, caller: object, lease: Any) -> Any:
        """Record that the frame's `with` block of the handle begins; return its lease."""
        self._blocks.append(_Block(id(frame), frame.f_code, weakref.ref(caller), lease))
        return lease

    def leave(self, frame: FrameType, caller: object) -> Any:
        """Return the lease of the innermost `with` block of the frame, which ends; None without it.

        A generator's frame may end its block in another thread than it began.  An `ExitStack` has
        another frame: then the block is the latest of the caller, or else the handle's oldest.
        """
        blocks = self._blocks[::-1]
        here = [each for each in blocks if (each.frame, each.code) == (id(frame), frame.f_code)]
        found = here or [each for each in blocks if each.caller() is caller] or blocks[-1:]
        if not found:
            return None
        self._blocks.remove(found[0])
        return found[0].lease


def _is_live(lease: Any) -> bool:
    return lease is not None and lease.remaining() > 0
