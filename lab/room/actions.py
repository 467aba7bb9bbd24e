"""The buttons of the room and of the duel: each name with its arguments and what it does."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from http import HTTPStatus
from inspect import signature
from random import SystemRandom
from typing import Annotated, Any, get_type_hints

import msgspec
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import Error
from msgspec import Meta, Struct

from development import StackError
from inventory import services
from inventory.outcomes import Busy
from lab.proof import snapshot
from lab.proof.testbed import misbehave
from lab.room.duel import Duels
from lab.room.faults import FaultControl
from lab.room.permissions import PERMISSIONS
from lab.room.room import Refused, Room
from lab.room.rush import Rush
from lab.room.texts import MIX_NAMES
from lab.strategies import CLASSES, DEFAULT
from lab.strategies.choice import choose, open_sale
from loadtest.run_plan import RunPlan
from shop.catalogue.models import Sale

Id = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Units = Annotated[int, Meta(ge=1, le=100_000)]
Buyers = Annotated[int, Meta(ge=1, le=5_000)]
PerSecond = Annotated[float, Meta(ge=0, le=2000)]
Two = Annotated[list[str], Meta(min_length=2, max_length=2)]

PROVIDER: dict[str, dict[str, Any]] = {
    "well": {},
    "declines": {"decline": 0.5},
    "delays": {"delay": 1500, "processing": 3000},
    "lost": {"lost": 0.3},
    "repeats": {"copies": 3, "shuffle": 2000},
}
"""How the payment provider can behave, by the button's name: see `development/psp/books.py`."""


def arguments_of(act: Callable[..., None]) -> type[Struct]:
    """Return the JSON object that has an action's parameters as its members, and no others."""
    kinds = get_type_hints(act, include_extras=True)
    members = [
        (name, kinds[name]) if each.default is each.empty else (name, kinds[name], each.default)
        for name, each in signature(act).parameters.items()
    ]
    return msgspec.defstruct("Arguments", members, kw_only=True, forbid_unknown_fields=True)


class Actions:
    """Carries out actions in the room's process, which is there when web processes are not."""

    def __init__(self, room: Room, faults: FaultControl, rush: Rush, duels: Duels) -> None:
        self._room, self._faults, self._rush, self._duels = room, faults, rush, duels
        acts: dict[str, Callable[..., None]] = {
            "watch": self._watch,
            "rush": self._start_rush,
            "stop": self._stop,
            "restock": self._restock,
            "pause": self._pause,
            "strategy": self._change_strategy,
            "inject": self._inject,
            "heal": faults.heal,
            "provider": self._behave,
            "duel": self._duel,
            "again": self._start_again,
        }
        if acts.keys() != PERMISSIONS.keys():
            raise ValueError("each action has a permission in lab/room/permissions.py")
        self._known = {name: (arguments_of(act), act) for name, act in acts.items()}

    def __call__(self, name: str, arguments: dict[str, Any]) -> None:
        """Carry one out.

        Raises:
            Refused: it is unknown, or impossible now.
            ValueError: the arguments are invalid.
        """
        if name not in self._known:
            raise Refused("not found", HTTPStatus.NOT_FOUND)
        kind, act = self._known[name]
        try:
            act(**msgspec.structs.asdict(msgspec.convert(arguments, kind)))
        except ValidationError as error:
            raise ValueError("; ".join(error.messages)) from error
        except Sale.DoesNotExist:
            raise Refused("there is no such sale", HTTPStatus.NOT_FOUND) from None
        except (StackError, Error, Busy) as error:
            raise Refused(str(error) or "the shop is overloaded") from error

    def _watch(self, sale: Id | None = None) -> None:
        """Show this sale; without one, always the newest."""
        self._room.chosen = sale

    def _start_rush(
        self,
        buyers: Buyers,
        arrivals: PerSecond = 0.0,
        mix: str = "rush",
        sale: Id | None = None,
        stock: Units = 100,
        strategy: str = DEFAULT,
    ) -> None:
        """Let buyers at a sale, without one at a fresh one; at once if none arrive per second."""
        if mix not in MIX_NAMES:
            raise ValueError(f"no mix is called {mix!r}")
        self._rush.task.require_idle()
        seed = SystemRandom().randrange(1, 2**31)
        plan = RunPlan(buyers=buyers, seed=seed, mix=mix, arrivals=arrivals)
        if sale is None:
            # It opens when the buyers have gathered, as in a proof.
            opens = timedelta(seconds=plan.gathers_in)
            opened = open_sale(
                stock=stock,
                price=99_900,
                limit=1,
                strategy=strategy,
                starts_in=opens,
                listed=False,
            )
            sale = opened.pk
        # It stays with this rush, whatever other sales open meanwhile.
        self._room.chosen = sale
        self._rush.start(replace(plan, sale=str(sale)))

    def _stop(self) -> None:
        self._rush.send_away()
        self._duels.stop()

    def _restock(self, sale: Id, units: Units) -> None:
        services.restock(Sale.objects.get(pk=sale).item_id, units)

    def _pause(self, sale: Id, paused: bool) -> None:
        snapshot.change(sale, paused=paused)

    def _change_strategy(self, sale: Id, strategy: str) -> None:
        choose(Sale.objects.get(pk=sale), strategy)

    def _inject(self, fault: str, sale: Id | None = None) -> None:
        if fault not in self._faults.offered():
            raise Refused(f"the fault {fault!r} is not possible here")
        self._faults.inject(fault, sale or 0)

    def _behave(self, behaviour: str) -> None:
        if behaviour not in PROVIDER:
            raise ValueError(f"the provider knows no behaviour {behaviour!r}")
        misbehave(settings.PSP_URL, **PROVIDER[behaviour])
        self._room.show("provider", behaviour)
        self._room.timeline.add("provider", behaviour=behaviour)

    def _start_again(self) -> None:
        """Empty the room for another show: no fault, no buyers, no result, no events."""
        self._faults.task.stop()
        self._rush.abandon()
        with suppress(StackError):  # a provider that does not run does not misbehave either
            misbehave(settings.PSP_URL)
        self._room.empty()

    def _duel(self, strategies: Two, buyers: Buyers, stock: Units) -> None:
        if unknown := set(strategies) - set(CLASSES):
            raise ValueError(f"no strategy is called {unknown.pop()!r}")
        self._duels.start(tuple(strategies), buyers, stock)
