"""All faults by name. To add one, write a class in its family's file."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType

from loadtest.faults import (
    background,
    machine,
    postgres,
    postgres_hosts,
    rabbitmq_hosts,
    redis,
    redis_hosts,
    web,
    web_hosts,
)
from loadtest.faults.fault import Fault


def _named(*families: ModuleType) -> dict[str, type[Fault]]:
    """Return the faults of these files by name, in their order."""
    return {
        each.name: each
        for family in families
        for each in vars(family).values()
        if isinstance(each, type)
        and issubclass(each, Fault)
        and each.__module__ == family.__name__
        and "name" in vars(each)
    }


FAULTS = _named(web, redis, postgres, background, machine)
"""Those of one machine."""

BED_FAULTS = _named(redis_hosts, postgres_hosts, rabbitmq_hosts, web_hosts)
"""Those of several hosts, for `prove --bed`; each bed names the ones that it was made for."""


def find(name: str) -> type[Fault]:
    """Return the fault of this name."""
    return FAULTS[name] if name in FAULTS else BED_FAULTS[name]


def left_out(names: Iterable[str], there: frozenset[str]) -> dict[str, str]:
    """Return those of these faults that cannot be injected here, with what they lack."""
    return {
        name: ", ".join(sorted(missing)) for name in names if (missing := find(name).needs - there)
    }
