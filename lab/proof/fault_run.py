"""The faults of a proof, and the restocks that keep its sales going."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from django.db import Error, connection, transaction
from redis.exceptions import RedisError

from inventory import services
from inventory.models import Item
from inventory.selling import guard
from inventory.selling.commit import forget_connection
from lab.proof.deadline import ending
from lab.proof.plan import Plan
from loadtest.faults import Chaos, Fault, Injected, Target, find
from loadtest.faults.postgres_hosts import SETTLED
from loadtest.roles import MAIN
from loadtest.steps import Restocks, RunFiles
from shop.catalogue.models import Sale

LOOK = 0.5
"""Seconds between two looks at the servers."""


class FaultRun:
    """Injects the plan's faults and restocks its sales.

    Args:
        plan: of the proof.
        target: what faults act on; None if nothing may be broken here.
        files: of the run.

    Attributes:
        unsettled: why the servers had not recovered at the end; empty if they had.
    """

    def __init__(self, plan: Plan, target: Target | None, files: RunFiles) -> None:
        self._plan, self._target, self._files = plan, target, files
        self._chaos: Chaos | None = None
        self._restocks: list[Restocks] = []
        self.unsettled = ""

    @contextmanager
    def open(self, sales: Mapping[str, int]) -> Iterator[None]:
        """Restock these sales (ids by role) if they have to last; on exit, heal the last fault."""
        plan = self._plan
        with ExitStack() as cleanup:
            for role, (units, most) in plan.restocks.items():
                shelf = DatabaseShelf(sales[role], tells=plan.restock_tells)
                restocks = Restocks(shelf, units, self._files.path, most=most)
                restocks.start()
                cleanup.push(self._ending(restocks.stop, restocks.abandon))
                self._restocks.append(restocks)
            if plan.faults and self._target is not None:
                target = replace(self._target, sale=sales[MAIN])
                target.write(self._files.path / "target.json")
                self._chaos = Chaos(
                    plan.faults,
                    target,
                    plan.profile.seed,
                    self._files.faults,
                    times=0 if plan.minutes else plan.times,
                )
                cleanup.push(self._ending(self._chaos.stop, self._chaos.abandon))
            yield

    def _ending(self, stop: Callable[[], None], abandon: Callable[[], None]) -> Callable[..., None]:
        """Return an exit callback. Servers on this machine are healed before they are stopped."""
        return ending(stop, abandon if self._plan.bed else stop)

    def begin(self) -> None:
        """Start to inject, once: the sale has opened."""
        if self._chaos is not None and not self._chaos.started:
            self._chaos.start()

    def is_over(self, since: float) -> bool:
        """Whether the planned time is up, `since` seconds after the opening, and all is healed."""
        plan, chaos = self._plan, self._chaos
        if plan.minutes and since < 60 * plan.minutes:
            return False
        if chaos is None:
            return True
        if plan.minutes:
            chaos.end()
        return chaos.done

    def look(self) -> Fault | None:
        """The fault of this moment; keeps the sales stocked while it needs a shop that sells."""
        fault = self._chaos.current if self._chaos else None
        for restocks in self._restocks:
            restocks.plenty = fault is not None and fault.wants_stock
        return fault

    @property
    def injected(self) -> list[Injected]:
        """The faults that were injected."""
        return self._chaos.injected if self._chaos else []

    @property
    def failed(self) -> list[Injected]:
        """The faults that could not be injected or healed."""
        return self._chaos.failed if self._chaos else []

    def wait_until_settled(self) -> None:
        """Wait until the servers have recovered from all faults, for a while at most."""
        deadline = time.monotonic() + SETTLED
        while reason := self._unsettled():
            if time.monotonic() > deadline:
                self.unsettled = reason
                return
            time.sleep(LOOK)

    def _unsettled(self) -> str:
        """Return why a server has not recovered; empty if all have."""
        if self._target is None:
            return ""
        reasons = {find(name).unsettled(self._target) for name in self._plan.faults}
        return "; ".join(sorted(reasons - {""}))

    def shortcoming(self) -> str:
        """Why the faults prove nothing; empty if all happened as planned."""
        problems = [f"{each.fault}: {each.error}" for each in self.failed if not each.healed]
        if self._chaos is not None and not self._plan.minutes:
            injected = Counter(each.fault for each in self.injected)
            missing = {name for name in self._plan.faults if injected[name] < self._plan.times}
            problems += [
                f"{each.fault}: {each.error}" for each in self.failed if each.fault in missing
            ]
        shortcomings = [f"not injected: {'; '.join(problems)}"] if problems else []
        if self.unsettled:
            shortcomings.append(f"not recovered at the end: {self.unsettled}")
        return "; ".join(shortcomings)


class DatabaseShelf:
    """A sale's item; `tells` says whether a restock removes the sold-out hint."""

    errors: tuple[type[Exception], ...] = (Error, RedisError)

    def __init__(self, sale: int, *, tells: bool = True) -> None:
        self._id, self._tells = Sale.objects.values_list("item", flat=True).get(pk=sale), tells
        self.sale, self.item = str(sale), str(self._id)

    def left(self) -> int | None:
        """Return the units available; None if the database does not say."""
        try:
            return Item.objects.values_list("available", flat=True).get(pk=self._id)
        except Error:
            forget_connection()
            return None

    def add(self, units: int) -> None:
        """Add units."""
        try:
            if self._tells:
                services.restock(self._id, units)
                return
            with transaction.atomic():
                guard.restock(self._id, units)
        except self.errors:
            forget_connection()
            raise

    def close(self) -> None:
        """Close the thread's connection."""
        connection.close()
