"""Fourteen locks as most people write them first, each with its known flaw.

Do not use them in a shop; use `locking.backends`.  Each file is one lock as it is usually
published; its docstring names the flaw and the lesson that fixes it.  `course.simulator` runs
them in virtual time and finds the interleavings that break them; `docs/locks.md` is the course.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module


@dataclass(frozen=True, slots=True)
class Lesson:
    """One file of this package.

    `slug` is its name on the command line, `title` the steps of the lock, `module` the file.
    """

    number: int
    slug: str
    title: str
    module: str

    @property
    def docstring(self) -> str:
        """The lesson's docstring: its flaw, and the lesson that fixes it."""
        return (import_module(f"course.lessons.{self.module}").__doc__ or "").strip()


LESSONS = tuple(
    Lesson(number, slug, title, f"lesson_{number:02}_{slug.replace('-', '_')}")
    for number, (slug, title) in enumerate(
        [
            ("setnx-expire", "SETNX, then EXPIRE"),
            ("setnx-ttl-repair", "SETNX, then EXPIRE, repaired by TTL"),
            ("setnx-getset", "SETNX with the deadline as value, GET, GETSET"),
            ("getset-busy-loop", "now > GET and now > GETSET, in a busy loop"),
            ("lua-setnx-expire", "SETNX and EXPIRE in one Lua script"),
            ("set-nx-ex", "SET NX EX, then DEL"),
            ("get-compare-del", "SET NX PX token, GET, compare, DEL"),
            ("token-lua", "SET NX PX token, compare-and-delete in Lua"),
            ("watchdog", "the textbook lock with a watchdog"),
            ("redlock", "Redlock over five servers"),
            ("table-row", "a row in a table"),
            ("row-lock", "SELECT … FOR UPDATE on a lock row"),
            ("unique-index", "a unique index as the lock"),
            ("memcached-add", "memcached add and cas"),
        ],
        start=1,
    )
)


def find(slug: str) -> Lesson:
    """Return the lesson of that name or number; `KeyError` if there is none."""
    for lesson in LESSONS:
        if slug in (lesson.slug, str(lesson.number)):
            return lesson
    raise KeyError(f"no lesson {slug!r}; there are {', '.join(one.slug for one in LESSONS)}")
