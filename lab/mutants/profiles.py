"""The proofs that mutants are tried on: arguments of ``manage.py prove``, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SHORT = ("--buyers", "200", "--stock", "120", "--mix", "all", "--seed", "7")
# With fewer buyers, since answers must be quick before and after a fault on a busy machine too.
CALM = ("--buyers", "80", "--stock", "60", "--mix", "all", "--seed", "7")


@dataclass(frozen=True, slots=True)
class Profile:
    """A short proof.

    Attributes:
        shows: the kind of bugs that it is for.
        arguments: of ``manage.py prove``.
        environment: variables that it gets.
    """

    shows: str
    arguments: tuple[str, ...] = SHORT
    environment: Mapping[str, str] = field(default_factory=dict)


def _with(*faults: str) -> tuple[str, ...]:
    return (*CALM, *(text for fault in faults for text in ("--fault", fault)))


PROFILES = {
    "all": Profile("what buyers of every kind meet"),
    "walkers": Profile(
        "what a lone buyer is answered",
        ("--buyers", "20", "--stock", "10", "--mix", "walkers", "--seed", "7"),
    ),
    "single": Profile("one purchase per transaction", (*SHORT, "--strategy", "guard")),
    "payments": Profile(
        "a provider whose answers are lost",
        ("--buyers", "60", "--stock", "40", "--mix", "refunders", "--seed", "7"),
        environment={"PSP_BEHAVIOUR": '{"lost": 0.2, "decline": 0.1, "copies": 2, "shuffle": 300}'},
    ),
    "crashes": Profile(
        "killed processes and lost commits",
        _with("celery-killed", "commit-lost", "web-killed-after-commit", "postgres-killed"),
    ),
    "holders": Profile("a lock holder that is overtaken", _with("holder-paused")),
    "redis": Profile(
        "Redis away, empty or full", _with("redis-killed", "redis-paused", "redis-full")
    ),
    "clock": Profile("a process whose clock is wrong", _with("clock-stepped")),
}
"""By name. Mutants name theirs in the catalogue; most take ``all``."""
