"""The buttons of the room and of the duel: each name with its arguments and what it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from http import HTTPStatus
from random import SystemRandom
from typing import Annotated, Any

import msgspec
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import Error
from msgspec import Meta, Struct

from development.errors import StackError
from inventory import services
from inventory.outcomes import Busy
from lab.proof import snapshot
from lab.proof.testbed import misbehave
from lab.room.duel import Duels
from lab.room.room import Room
from lab.room.rush import FaultControl, Rush
from lab.room.server import Refused
from lab.room.texts import MIX_NAMES
from lab.strategies import CLASSES, DEFAULT
from lab.strategies.choice import choose, open_sale
from loadtest.steps import RunPlan
from shop.catalogue.models import Sale

Id = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Units = Annotated[int, Meta(ge=1, le=100_000)]
Buyers = Annotated[int, Meta(ge=1, le=5_000)]

PROVIDER: dict[str, dict[str, Any]] = {
    "well": {},
    "declines": {"decline": 0.5},
    "delays": {"delay": 1500, "processing": 3000},
    "lost": {"lost": 0.3},
    "repeats": {"copies": 3, "shuffle": 2000},
}
"""How the payment provider can behave, by the button's name: see `lab/psp/books.py`."""


class Watch(Struct, forbid_unknown_fields=True):
    """Which sales are shown; none: always the newest."""

    sales: Annotated[list[Id], Meta(max_length=2)]


class RushWanted(Struct, forbid_unknown_fields=True):
    """Buyers for a sale; without a sale, for a fresh one.

    ``arrivals``: per second; 0: at once. ``record``: for slow motion.
    """

    buyers: Buyers
    arrivals: Annotated[float, Meta(ge=0, le=2000)] = 0.0
    mix: str = "rush"
    sale: Id | None = None
    stock: Units = 100
    strategy: str = DEFAULT
    record: bool = False


class Restock(Struct, forbid_unknown_fields=True):
    """Units for a sale's item."""

    sale: Id
    units: Units


class Pause(Struct, forbid_unknown_fields=True):
    """Whether a sale rests."""

    sale: Id
    paused: bool


class StrategyWanted(Struct, forbid_unknown_fields=True):
    """How a sale is to sell from now on."""

    sale: Id
    strategy: str


class FaultWanted(Struct, forbid_unknown_fields=True):
    """A fault, by its name."""

    fault: str
    sale: Id | None = None


class Behaviour(Struct, forbid_unknown_fields=True):
    """A behaviour of the payment provider, by the button's name."""

    behaviour: str


class DuelWanted(Struct, forbid_unknown_fields=True):
    """Two strategies for the same buyers."""

    strategies: Annotated[list[str], Meta(min_length=2, max_length=2)]
    buyers: Buyers = 500
    stock: Units = 100


class Nothing(Struct, forbid_unknown_fields=True):
    """No arguments."""


class Actions:
    """Carries out actions in the room's process, which is there when web processes are not."""

    def __init__(self, room: Room, faults: FaultControl, rush: Rush, duels: Duels) -> None:
        self._room, self._faults, self._rush, self._duels = room, faults, rush, duels
        self._known: dict[str, tuple[type[Struct], Callable[[Any], None]]] = {
            "watch": (Watch, self._watch),
            "rush": (RushWanted, self._start_rush),
            "stop": (Nothing, self._stop),
            "restock": (Restock, self._restock),
            "pause": (Pause, self._pause),
            "strategy": (StrategyWanted, self._change_strategy),
            "inject": (FaultWanted, self._inject),
            "heal": (Nothing, lambda _: self._faults.heal()),
            "provider": (Behaviour, self._behave),
            "duel": (DuelWanted, self._duel),
        }

    def __call__(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Carry one out.

        Raises:
            Refused: it is unknown, or impossible now.
            ValueError: the arguments are invalid.
        """
        if name not in self._known:
            raise Refused("not found", HTTPStatus.NOT_FOUND)
        kind, act = self._known[name]
        try:
            act(msgspec.convert(arguments, kind))
        except ValidationError as error:
            raise ValueError("; ".join(error.messages)) from error
        except Sale.DoesNotExist:
            raise Refused("there is no such sale", HTTPStatus.NOT_FOUND) from None
        except (StackError, Error, Busy) as error:
            raise Refused(str(error) or "the shop is overloaded") from error
        return {}

    def _watch(self, wanted: Watch) -> None:
        self._room.watch(tuple(wanted.sales))

    def _start_rush(self, wanted: RushWanted) -> None:
        if wanted.mix not in MIX_NAMES:
            raise ValueError(f"no mix is called {wanted.mix!r}")
        if self._room.shows("rush"):
            raise Refused("the buyers of the last rush are still there")
        plan = RunPlan(
            buyers=wanted.buyers,
            seed=SystemRandom().randrange(1, 2**31),
            mix=wanted.mix,
            arrivals=wanted.arrivals,
        )
        sale = wanted.sale
        if sale is None:
            # It opens when the buyers have gathered, as in a proof.
            opened = open_sale(
                stock=wanted.stock,
                price=99_900,
                limit=1,
                strategy=wanted.strategy,
                starts_in=timedelta(seconds=plan.gathers_in),
            )
            sale = opened.pk
            self._room.watch(())
        if not self._rush.start(replace(plan, sale=str(sale)), record=wanted.record):
            raise Refused("the buyers of the last rush are still there")

    def _stop(self, _: Nothing) -> None:
        self._rush.stop()
        self._duels.stop()

    def _restock(self, wanted: Restock) -> None:
        services.restock(Sale.objects.get(pk=wanted.sale).item_id, wanted.units)

    def _pause(self, wanted: Pause) -> None:
        snapshot.change(wanted.sale, paused=wanted.paused)

    def _change_strategy(self, wanted: StrategyWanted) -> None:
        choose(Sale.objects.get(pk=wanted.sale), wanted.strategy)

    def _inject(self, wanted: FaultWanted) -> None:
        if wanted.fault not in self._faults.offered():
            raise Refused(f"the fault {wanted.fault!r} is not possible here")
        if not self._faults.inject(wanted.fault, wanted.sale or 0):
            raise Refused("heal the current fault first")

    def _behave(self, wanted: Behaviour) -> None:
        if wanted.behaviour not in PROVIDER:
            raise ValueError(f"the provider knows no behaviour {wanted.behaviour!r}")
        misbehave(settings.PSP_URL, **PROVIDER[wanted.behaviour])
        self._room.show("provider", wanted.behaviour)
        self._room.timeline.add("provider", behaviour=wanted.behaviour)

    def _duel(self, wanted: DuelWanted) -> None:
        if unknown := set(wanted.strategies) - set(CLASSES):
            raise ValueError(f"no strategy is called {unknown.pop()!r}")
        if not self._duels.start(tuple(wanted.strategies), wanted.buyers, wanted.stock):
            raise Refused("the last duel is still going on")
