"""The state machine: everybody acts in any order, and after each act shop and model agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

from django.conf import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from shop.payments.provider import provider
from shop.specification.order import Sale
from shop.tests.specification import rest, shown
from shop.tests.specification.acts import ACTS
from shop.tests.specification.buyers import BuyersActs
from shop.tests.specification.others import OthersActs
from shop.tests.specification.world import Psp, World

PROVIDER = "shop.tests.specification.world.Psp"
FIRST = ("buys", "buys", "buys_a_cart", "uses_a_page")


class Story(BuyersActs, OthersActs):
    """Ann and Bob, an operator, the provider and the clock in a shop of three sales."""

    @initialize(
        stock=st.integers(2, 6),
        limit=st.integers(2, 4),
        prices=st.sampled_from([(1_250, 1_990), (99_900, 0), (123_456, 1_999)]),
        resold=st.booleans(),
        currency=st.sampled_from(["CNY", "JPY", "KWD"]),
        hold=st.sampled_from([30, 90, 900, 7_260]),
        opens=st.sampled_from([-5, -5, 120]),
        eyes=st.booleans(),
        payments=st.sampled_from([True] * 7 + [False]),
    )
    def opens(
        self,
        stock: int,
        limit: int,
        prices: tuple[int, int],
        resold: bool,
        currency: str,
        hold: int,
        opens: int,
        eyes: bool,
        payments: bool,
    ) -> None:
        """Open the sales; `eyes` decides who looks at the end: operators or buyers."""
        chosen = (stock, limit, prices, resold, currency, hold, opens, eyes, payments)
        names = ("stock", "limit", "prices", "resold", "currency", "hold", "opens", "eyes")
        self.steps.append(("opens", dict(zip((*names, "payments"), chosen, strict=True))))
        self.eyes, far = eyes, 100_000
        rules = {"resells_cancelled": resold, "resells_returned": not resold}
        sales = [
            Sale("A & <B>", stock, prices[0], "CNY", limit, -10, far, hold, 199_900, **rules),
            Sale("Phone", 5, prices[1], "CNY", 3, max(opens - 120, 0), 400, 60, 199_900),
            Sale("Gamma", 4, 1_500, currency, 3, opens, far, 900, 1_000, **rules),
        ]
        settings.PAYMENT_PROVIDER = PROVIDER
        provider.cache_clear()
        psp = cast(Psp, provider())
        settings.PAYMENT_PROVIDER = PROVIDER if payments else ""
        self.begin(World(sales, psp, payments=payments), sales)
        self.say(
            f"A & <B> has {stock} at {prices[0]} CNY, {limit} each, {hold} s to pay; Phone costs "
            f"{prices[1]} CNY, Gamma 1500 {currency}"
            + ("" if payments else "; nothing is paid here")
        )

    @rule(data=st.data())
    def happens(self, data: st.DataObject) -> None:
        """Let one act happen that can, chosen by its weight."""
        name = data.draw(st.sampled_from(self._possible()), label="act")
        getattr(self, name)(**data.draw(ACTS[name].arguments, label=name))

    def _possible(self) -> list[str]:
        if len(self.steps) < 3:
            return list(FIRST)
        # Hypothesis prefers what comes first.
        order = sorted(ACTS, key=lambda name: -ACTS[name].weight)
        possible = [n for n in order if not ACTS[n].needs or self.there_is(ACTS[n].needs)]
        return [name for name in possible for _ in range(ACTS[name].weight)]

    def teardown(self) -> None:
        """Let everything that waits happen, and look at everything once more."""
        if self.over:
            return
        with self.telling():
            self._come_to_rest()

    def _come_to_rest(self) -> None:
        self.world.forget()
        self.world.provider.be("answers")
        self.model.mood = "answers"
        while self.working():
            self.finish(*self.working()[0], end="captured")
        for each in self.news:
            self.report(each, each.pk)
        self.world.end()
        self._act("the_clock_ends_orders", task="expire_orders", times=1)
        self._act("the_shop_asks_the_provider", times=2)
        assert not self.refunds("pending")
        self._act("the_shop_follows_up", times=1)
        self._act("the_clock_ends_orders", task="expire_due", times=1)
        self._act("the_shop_sends_mails")
        for look in self._looks():
            self.world.forget()
            look()

    def _act(self, name: str, **arguments: Any) -> None:
        """Let an act happen that is no step of the story."""
        self.happen(getattr(type(self), name).__wrapped__, arguments)

    def _looks(self) -> Iterator[Callable[[], object]]:
        """Yield what people look at when everything is at rest."""
        world, operator = self.world, self.operator
        if self.eyes:
            yield partial(rest.check_watching, world, operator)
            yield operator.check_lists
            yield from (partial(operator.check_order, order) for order in self.model.orders[-3:])
            return
        for order in self.model.orders:
            person = self.person(order)
            yield partial(shown.check_order_page, person, order, world)
            yield partial(self.doors.look_by_api, person, order)
        for person in world.people.values():
            for check in (shown.check_orders, shown.check_cart, shown.check_home):
                yield partial(check, person, world)
        for sale in self.sales:
            yield partial(self.doors.look_at_sale, person, sale)
            yield partial(shown.check_sale_page, person, sale, world)

    def replay(self, steps: list[tuple[str, dict[str, Any]]]) -> None:
        """Tell a story that was found before."""
        for name, arguments in steps:
            getattr(self, name)(**arguments)
        self.teardown()
