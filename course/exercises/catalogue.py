"""The exercises: one for each lesson, four about the shop; each with a start, hint and solution."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from course import lessons
from course.lessons import Lesson

HERE = Path(__file__).parent

SHOP = tuple(
    Lesson(number, slug, title, f"lesson_{slug.replace('-', '_')}")
    for number, slug, title in (
        (1, "lost-commit", "an answer lost at COMMIT"),
        (2, "retry-without-key", "a retry without a key"),
        (3, "outbox-too-early", "an outbox that is marked too early"),
        (4, "oversold-cart", "an oversold cart"),
    )
)
"""Exercises about the shop, which have no lesson; see `shop_model`."""


def find(slug: str) -> Lesson:
    """Return the lesson or the shop's exercise of that name; `KeyError` if there is none."""
    for one in SHOP:
        if one.slug == slug:
            return one
    return lessons.find(slug)


@dataclass(frozen=True, slots=True)
class Exercise:
    """The task of a lesson: mend the lock of `start` so that its checks find nothing.

    `task` and `hint` are English, and have their Chinese in the catalogue of messages.
    `methods` are what a class must have to be taken for the learner's lock.
    """

    lesson: Lesson
    task: str
    hint: str
    start: Path
    solution: Path
    methods: tuple[str, ...]


def _(text: str) -> str:
    """Mark a text for the catalogue of messages.

    Django's own marker would load Django in the learner's process, which has little memory.
    """
    return text


LOCK = ("acquire", "release")

# lesson: (task, hint, start, solution, methods).  A start or a solution that is a lesson's file is
# named by the lesson; an empty one is in `files/`.
_EXERCISES: dict[str, tuple[str, str, str, str, tuple[str, ...]]] = {
    "setnx-expire": (
        _("Let no crash leave a key that never expires."),
        _("One command of Redis sets a key and its expiry: SET has the options NX and EX."),
        "setnx-expire", "set-nx-ex", LOCK,
    ),
    "setnx-ttl-repair": (
        _("Repair a dead key without letting two clients in."),
        _("The check, the taking and the expiry belong in one script; TTL answers -1 for a key "
          "that never expires."),
        "setnx-ttl-repair", "", ("lock", "unlock"),
    ),
    "setnx-getset": (
        _("Let no clock of a client matter, and let a late holder delete nothing."),
        _("Let the server count the lease (SET NX PX), and write into the value whose lock it is."),
        "setnx-getset", "token-lua", LOCK,
    ),
    "getset-busy-loop": (
        _("Let no clock matter, and let no failed client hold the lock."),
        _("A client that computes no deadline needs no GETSET: one step on the server is enough."),
        "getset-busy-loop", "lua-setnx-expire", LOCK,
    ),
    "lua-setnx-expire": (
        _("Let a late holder not delete the next one's lock."),
        _("Write a token into the value (uuid.uuid4().hex), and read it before you delete."),
        "lua-setnx-expire", "get-compare-del", LOCK,
    ),
    "set-nx-ex": (
        _("Let a late holder not delete the next one's lock."),
        _("As in the chapter before: a token of the client's own in place of the 1."),
        "set-nx-ex", "get-compare-del", LOCK,
    ),
    "get-compare-del": (
        _("Let no pause come between the comparison and the deletion."),
        _("A script can do both: if redis.call('GET', KEYS[1]) == ARGV[1] then … end."),
        "get-compare-del", "token-lua", LOCK,
    ),
    "token-lua": (
        _("Let work of twelve seconds keep a lease of ten."),
        _("A daemon thread can renew the lease every third of it, by a script that compares the "
          "token; a threading.Event stops it."),
        "token-lua", "watchdog", LOCK,
    ),
    "watchdog": (
        _("Let a paused holder do no harm: set self.token to a number that grows with every "
          "grant."),
        _("INCR a second key in the script that takes the lock; the resource refuses a token "
          "smaller than one it has seen."),
        "watchdog", "", LOCK,
    ),
    "redlock": (
        _("Give Redlock a self.token that grows with every grant."),
        _("INCR a counter on each server and take the largest answer; another majority may not "
          "have seen it, so write it back to a majority before you enter."),
        "redlock", "", LOCK,
    ),
    "table-row": (
        _("Let the row go with its holder, and never because the holder is slow."),
        _("Set connection.autocommit = False: a row that is not committed yet makes other "
          "INSERTs of its name wait, and goes when the connection does."),
        "table-row", "", LOCK,
    ),
    "row-lock": (
        _("Let the lock hold although the row does not exist yet."),
        _("INSERT … ON CONFLICT DO NOTHING, and commit it, before you SELECT … FOR UPDATE."),
        "row-lock", "", LOCK,
    ),
    "unique-index": (
        _("Let two workers refund an order once."),
        _("The table `refund` has the order as its primary key: insert first, and look at "
          "rowcount."),
        "", "unique-index", ("refund",),
    ),
    "memcached-add": (
        _("Let the lock hold on a memcached that evicts nothing."),
        _("pymemcache does not wait for the answer of `add` unless you say noreply=False."),
        "", "memcached-add", LOCK,
    ),
    "lost-commit": (
        _("Let no buyer be told what is not so, also if the answer to COMMIT is lost."),
        _("An error at COMMIT means unknown, never failed: look the order up on a new connection."),
        "", "", ("buy",),
    ),
    "retry-without-key": (
        _("Let a client that tries again place one order."),
        _("The shop knows an order by its key: all tries for one order need the same."),
        "", "", ("place",),
    ),
    "outbox-too-early": (
        _("Let no crash of the notifier lose a mail."),
        _("Whatever comes between the two calls, the one that can be repeated comes first."),
        "", "", ("run_once",),
    ),
    "oversold-cart": (
        _("Let two carts never sell more than there is, and never wait for each other."),
        _("Check and take in one statement per item, undo all if one fails, and take the rows in "
          "an order that all carts share."),
        "", "", ("buy",),
    ),
}  # fmt: skip


def _file(lesson: Lesson, slug: str, kind: str) -> Path:
    if slug:
        return HERE.parent / "lessons" / f"{find(slug).module}.py"
    return HERE / "files" / f"{lesson.module.replace('lesson', kind, 1)}.py"


def exercise(lesson: Lesson) -> Exercise:
    """Return the exercise of a lesson."""
    task, hint, start, solution, methods = _EXERCISES[lesson.slug]
    return Exercise(
        lesson,
        task,
        hint,
        _file(lesson, start, "start"),
        _file(lesson, solution, "solution"),
        methods,
    )
