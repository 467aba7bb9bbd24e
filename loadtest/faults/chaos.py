"""All faults by name; draw them by a seed, inject and heal them, and log what was done."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from types import ModuleType

from loadtest.fault_log import Injected
from loadtest.faults import containers, machine, postgres, redis, web
from loadtest.faults.fault import Fault, NotRecovered, Target, require_linux


def _named(*families: ModuleType) -> dict[str, type[Fault]]:
    """Return the faults of these files by name, in their order."""
    return {
        kind.name: kind
        for family in families
        for kind in vars(family).values()
        if isinstance(kind, type)
        and issubclass(kind, Fault)
        and kind.__module__ == family.__name__
        and "name" in vars(kind)
    }


FAULTS = _named(web, redis, postgres, machine)
"""Those of one machine."""

CONTAINER_FAULTS = _named(containers)
"""Those of servers that fail over, for `prove --compose`."""


def find(name: str) -> type[Fault]:
    """Return the fault of this name."""
    return FAULTS[name] if name in FAULTS else CONTAINER_FAULTS[name]


def left_out(names: Iterable[str], there: frozenset[str]) -> dict[str, str]:
    """Return those of these faults that cannot be injected here, with what they lack."""
    return {
        name: ", ".join(sorted(missing)) for name in names if (missing := find(name).needs - there)
    }


BETWEEN = (5.0, 15.0)
"""Seconds from the start of one fault to the start of the next, drawn at random."""

REST = 6.0
"""Minimum seconds from the end of a fault to the next: 3 within which the shop must sell again, and
3 in which its answers are judged."""


RESTOCKED = 1.0
"""Seconds in which an empty sale gets units, before a fault that shows something only while the
shop sells."""

TRIES = 3
"""Attempts per required injection: perhaps no process reached the failpoint, or the server is still
down after the previous fault."""


def draw(names: Sequence[str], seed: int) -> Iterator[tuple[float, str, Random]]:
    """Yield endlessly: seconds to the next fault, its name, and its random numbers.

    Each fault comes once before any repeats. The same seed draws the same faults.
    """
    random = Random(f"faults/{seed}")
    while True:
        for name in random.sample(names, len(names)):
            yield random.uniform(*BETWEEN), name, Random(random.random())


class Chaos:
    """Injects faults into a target, from its own thread, until it is stopped.

    Args:
        names: the faults to draw from.
        target: what they act on.
        seed: repeats the draw.
        log: file for the injected faults, one JSON object per line.
        times: stop when each fault has been injected so often; 0: continue.
    """

    def __init__(
        self, names: Sequence[str], target: Target, seed: int, log: Path, *, times: int = 0
    ) -> None:
        if names:
            require_linux()
        self.injected: list[Injected] = []
        self.failed: list[Injected] = []
        self.current: Fault | None = None
        self._draw = draw(names, seed)
        self._target = target
        self._log = log
        self._missing = dict.fromkeys(names, times) if times else None
        self._tries = dict.fromkeys(names, TRIES)
        self._end = threading.Event()
        self._abandoned = False
        self._thread = threading.Thread(target=self._run, name="chaos", daemon=True)

    def start(self) -> None:
        """Start; the first fault follows after a pause."""
        self._log.touch()
        self._thread.start()

    def end(self) -> None:
        """Start no further faults; heal the current one."""
        self._end.set()

    def stop(self) -> None:
        """End, and return when the last fault is healed."""
        self.end()
        if self.started:
            self._thread.join()

    def abandon(self) -> None:
        """End without healing the current fault: what it acts on is being removed."""
        self._abandoned = True
        self.end()

    @property
    def started(self) -> bool:
        """Whether it has started."""
        return self._thread.ident is not None

    @property
    def done(self) -> bool:
        """Whether it has started and finished."""
        return self.started and not self._thread.is_alive()

    def _run(self) -> None:
        begun, ended = time.monotonic(), 0.0
        for pause, name, random in self._draw:
            if self._missing is not None and name not in self._missing:
                if not self._missing:
                    return
                continue
            if self._end.wait(max(begun + pause, ended + REST) - time.monotonic()):
                return
            begun = time.monotonic()
            injected = self._inject(find(name), random)
            self._note(injected)
            if not injected.healed:
                return  # the next fault would hit a shop that is still suffering from this one
            if self._missing is not None:
                self._count(name, self._missing, failed=bool(injected.error))
            ended = time.monotonic()

    def _count(self, name: str, missing: dict[str, int], *, failed: bool) -> None:
        """Cross an injection off the list; also a fault that cannot be injected."""
        if failed:
            self._tries[name] -= 1
        else:
            self._tries[name] = TRIES
            missing[name] -= 1
        if not missing[name] or not self._tries[name]:
            del missing[name]

    def _inject(self, kind: type[Fault], random: Random) -> Injected:
        start, errors, healed = time.monotonic_ns(), [], True
        fault = None
        try:
            fault = self.current = kind(self._target, random)
            if kind.wants_stock:
                self._end.wait(RESTOCKED)
                start = time.monotonic_ns()
            fault.inject()
            self._end.wait(random.uniform(*fault.lasts))
        except Exception as error:  # noqa: BLE001  # any error is healed and reported
            errors.append(f"{type(error).__name__}: {error}")
            healed = not isinstance(error, NotRecovered)
        finally:
            if fault is not None and not self._abandoned and (problem := _heal(fault)):
                errors.append(problem)
                healed = False
            self.current = None
        did, lost_at = (fault.did, fault.lost_at) if fault is not None else ({}, None)
        end = time.monotonic_ns()
        why, doubt = "; ".join(errors), kind.leaves_doubt
        return Injected(kind.name, start, end, did, why, doubt, healed, lost_at)

    def _note(self, injected: Injected) -> None:
        (self.failed if injected.error else self.injected).append(injected)
        with self._log.open("a") as log:
            log.write(json.dumps(injected.to_json()) + "\n")


def _heal(fault: Fault) -> str:
    """Return the error of healing; empty on success."""
    try:
        fault.heal()
    except Exception as error:  # noqa: BLE001  # it is reported, and the verdict is unknown
        return f"not healed: {type(error).__name__}: {error}"
    return ""
