"""The buyers of one round: they meet at the cart and at the last step."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar, cast

from loadtest.adapter_steps import STEP, Failed, each_within, valid, within
from loadtest.address import RunImpossible
from loadtest.buyers import (
    ATTEMPTS,
    NO_FOLLOW,
    ONLY_ACCEPTED,
    PAUSE,
    Buyers,
    by_status,
    unanswered,
)
from loadtest.checker.report.headline import counted
from loadtest.release import Reply, send, together
from loadtest.rush.plan import FEW, Observer, Plan
from loadtest.shop import (
    Accepted,
    Added,
    Buyer,
    Cancels,
    Carts,
    Expires,
    Hold,
    Later,
    Level,
    Outcome,
    Refused,
    Request,
    Response,
    Sold,
    Unknown,
    Vouchers,
)

EACH = 3.0
"""Further seconds per buyer, to take them to the last step."""

ANSWERS = 60.0
"""Seconds for the answers to requests that were released together: as long as nginx waits."""

DOUBLE = 3
"""Where a shop knows repeats, every third buyer clicks twice."""

WAVES = 8
"""Moments at which orders are cancelled around their deadline, where the shop expires by itself."""

AROUND = 3.0
"""Seconds over which these moments are spread, from the first deadline on."""

T = TypeVar("T")


@dataclass(slots=True)
class RushBuyers(Buyers):
    """The buyers of one round.

    Attributes:
        plan: of the round.
        observer: follows it.
    """

    plan: Plan
    observer: Observer = field(kw_only=True)
    _followed: list[tuple[int, str, str, Reply, str]] = field(default_factory=list)

    def buy(self) -> None:
        """Bring the buyers through both meeting points, until every answer is known."""
        self.last = [Unknown("never asked")] * len(self.buyers)
        if self.plan.scene not in FEW:
            self.about_more.update(range(len(self.buyers)))
        if Level.EXPIRY in self.shop.levels:
            ask = partial(cast(Expires, self.shop).hold, self.sale)
            self.hold = within(STEP, "asking how long units are held", lambda: valid(Hold, ask()))
        began = time.monotonic()
        self._meet("add to cart", "cart", self.shop.add_to_cart)
        self._prepare()
        ready = time.monotonic() - began
        if self.hold is not None and not self.hold.orders and ready > self.hold.seconds:
            self.problems[
                f"the buyers were ready after {ready:.1f} s, and their units are held for "
                f"{self.hold.seconds:g} s: take fewer buyers"
            ] += 1
        if self.plan.scene is Level.EXPIRY and self.hold is not None and self.carts_expire:
            self._let_carts_expire(time.monotonic() + self.hold.seconds)
        if self.plan.scene is Level.VOUCHERS:
            shop = cast(Vouchers, self.shop)
            make = partial(shop.voucher, self.sale, self.plan.uses)
            self.voucher = within(STEP, "making a voucher", lambda: valid(str, make()))
            self._meet("redeem", "voucher", partial(shop.redeem, voucher=self.voucher))
        for attempt in range(1, ATTEMPTS + 1):
            asking = [
                number
                for number, outcome in enumerate(self.last)
                if isinstance(outcome, Unknown) and number not in self.left_out
            ]
            if not asking:
                break
            if attempt > 1:
                self.repeats += len(asking)
                time.sleep(PAUSE)
            self._buy(asking, attempt)

    def _prepare(self) -> None:
        """Take the buyers to the last step; some are turned away, or fail on the way."""

        def prepare(number: int) -> str | None:
            return self.prepare_one(number, self._send_one)

        going = [n for n in range(len(self.buyers)) if n not in self.turned_away | self.left_out]
        self.observer.step(f"taking {counted(len(going), 'buyer')} to the last step")
        declined = self._each("preparing the buyers", going, prepare)
        for number in going:
            self.end_preparation(number)
        for number, reason in declined.items():
            if reason is not None:
                self.turn_away(number, reason)

    def _each(
        self, step: str, numbers: Sequence[int], work: Callable[[int], T], *, leaves: bool = True
    ) -> dict[int, T]:
        """Do a step for each of these buyers, and return what it returns.

        A buyer whose step fails is reported, and left out unless `leaves` is False.

        Raises:
            RunImpossible: it failed for each of them.
        """
        found: dict[int, T] = {}
        seconds = STEP + EACH * len(numbers)
        failed: Counter[str] = Counter()
        results = each_within(seconds, numbers, work, each=STEP)
        for number, result in zip(numbers, results, strict=True):
            if not isinstance(result, Failed):
                found[number] = result
                continue
            failed[f"{step} {result.reason}"] += 1
            if leaves:
                self.left_out.add(number)
                self.last[number] = Unknown(f"{step} {result.reason}")
        if failed and not found:
            raise RunImpossible(failed.most_common(1)[0][0])
        self.problems += failed
        return found

    def _built(
        self, step: str, kind: type[T], numbers: Sequence[int], build: Callable[[int], Any]
    ) -> dict[int, T]:
        """Let the adapter build a request of each of these buyers."""

        def checked(number: int) -> T:
            [built] = valid(list[kind], [build(number)])  # type: ignore[valid-type]
            return cast(T, built)

        return self._each(step, numbers, checked)

    def _meet(self, step: str, op: str, request: Callable[[str, Buyer], Request | None]) -> None:
        """Send a request of every buyer at one moment, and let the adapter take in the answers."""
        going = [n for n in range(len(self.buyers)) if n not in self.turned_away | self.left_out]
        built: dict[int, Request | None] = self._built(
            step,
            cast(Any, Request | None),
            going,
            lambda n: request(self.sale, self.buyers[n]),
        )
        calls = [(n, request) for n, request in built.items() if request is not None]
        if not calls:
            return
        self.observer.step(f"{step}: {len(calls):,} requests at one moment")
        answers: dict[int, Reply] = {}
        outcomes = self._send(op, calls, answers=answers)
        if op == "cart":
            self.in_carts.update(
                number
                for (number, _), outcome in zip(calls, outcomes, strict=True)
                if not isinstance(outcome, Refused)
            )
            if isinstance(self.shop, Added):
                self._take_in({number: answers[n] for n, (number, _) in enumerate(calls)})

    def _take_in(self, replies: Mapping[int, Reply]) -> None:
        """Give the adapter the answers to "add to cart"; some turn their buyer away."""

        def take_in(number: int) -> str | None:
            return self.take_in_cart(number, replies[number])

        step = "taking in the answer to “add to cart”"
        for number, reason in self._each(step, list(replies), take_in).items():
            if reason is not None:
                del self.in_carts[number]
                self.turn_away(number, reason)

    def _buy(self, asking: Sequence[int], attempt: int) -> None:
        again = f", attempt {attempt} of those without an answer" if attempt > 1 else ""
        self.observer.step(f"the last step: {counted(len(asking), 'buyer')} at one moment{again}")
        knows = Level.REPEATS in self.shop.levels
        buy, sale, buyers = self.shop.buy, self.sale, self.buyers
        step = "the last step's request"
        built = self._built(step, Request, asking, lambda n: buy(sale, buyers[n]))
        more: dict[int, Request] = {}
        if self.plan.scene is Level.CARTS:
            # Each purchase has a companion that adds to its cart.
            add, step = cast(Carts, self.shop).add_more, "adding to the cart"
            more = self._built(step, Request, list(built), lambda n: add(sale, buyers[n]))
            self.adding.update(more)
        clicks = [n for n in built for _ in range(2 if knows and n % DOUBLE == 0 else 1)]
        keys = [f"b{n}" if knows else f"b{n}.{attempt}" for n in clicks]
        names = [self.ask(n, key, attempt) for n, key in zip(clicks, keys, strict=True)]
        requests = [built[n] for n in clicks]
        per_click = 1
        if more:
            requests = [one for n in clicks for one in (built[n], more.get(n, built[n]))]
            per_click = 2

        def ended(index: int, reply: Reply) -> None:
            number, companion = divmod(index, per_click)
            if not companion:
                self._hear(clicks[number], keys[number], names[number], reply)
            elif not isinstance(by_status(reply), Refused):
                self.in_carts[clicks[number]] += 1

        self.first_answer = self.first_answer or time.monotonic()
        self._together([*requests, *self._expiry_of_carts()], ended_first(len(requests), ended))
        self.last_answer = time.monotonic()
        self._follow()

    def _follow(self) -> None:
        """Ask what came of the purchases whose orders come later than their answers."""
        followed, self._followed = self._followed, []
        if not followed:
            return
        if not isinstance(self.shop, Later):
            raise RunImpossible(NO_FOLLOW)
        self.observer.step(f"asking what came of {counted(len(followed), 'accepted purchase')}")
        said: dict[int, Outcome] = {}

        def follow(index: int) -> None:
            number, _, _, _, ticket = followed[index]
            said[index] = self.follow_one(number, ticket, self._send_one)

        self._each("asking what came of a purchase", range(len(followed)), follow, leaves=False)
        for index, (number, key, call, reply, _) in enumerate(followed):
            self.take(number, key, call, reply, said.get(index, Unknown(ONLY_ACCEPTED)))

    def cancel(self) -> None:
        """Cancel every order twice at one moment; what it held must come back once."""
        sold = {
            n: outcome.order for n, outcome in enumerate(self.last) if isinstance(outcome, Sold)
        }
        self.observer.step(f"cancelling {len(sold):,} orders, each twice at one moment")
        self._give_back(sold, times=2)
        if sold and not self.cancelled:
            raise RunImpossible("the shop cancelled none of its orders")

    def _give_back(
        self, sold: Mapping[int, str], *, times: int, with_them: Sequence[Request] = ()
    ) -> None:
        """Cancel the orders of these buyers, each so many times, at one moment with these."""
        cancel = cast(Cancels, self.shop).cancel
        built = self._built(
            "the request to cancel",
            Request,
            list(sold),
            lambda n: cancel(self.sale, self.buyers[n], sold[n]),
        )
        calls = [(n, built[n]) for n in built for _ in range(times)]
        orders = [sold[n] for n, _ in calls]
        outcomes = self._send("cancel", calls, orders, with_them=with_them)
        for order, outcome in zip(orders, outcomes, strict=True):
            if not isinstance(outcome, Refused):
                self.cancelled.add(order)
        self.refused_back = {*self.refused_back, *orders} - self.cancelled

    def expire(self) -> None:
        """Let the time to pay run out, and cancel half of the orders at just that moment.

        What an order held must come back once, whoever is first. Where the shop expires by itself,
        the cancellations are spread over the seconds after the first deadline.
        """
        assert self.hold is not None
        sold = {
            n: outcome.order for n, outcome in enumerate(self.last) if isinstance(outcome, Sold)
        }
        self.expired = set(sold.values()) | self.expired
        half = dict(list(sold.items())[::2]) if Level.CANCEL in self.shop.levels else {}
        last = self.last_answer + self.hold.seconds
        requests = self.expire_requests()
        if requests:
            self._wait_until(last)
            self.observer.step(f"cancelling {len(half):,} orders while all of them expire")
            self._give_back(half, times=1, with_them=requests)
            return
        first = self.first_answer + self.hold.seconds
        for wave in range(WAVES):
            self._wait_until(first + (max(last - first, 0.0) + AROUND) * wave / WAVES)
            part = dict(list(half.items())[wave::WAVES])
            self.observer.step(f"cancelling {len(part):,} orders while all of them expire")
            self._give_back(part, times=1)

    def expire_again(self) -> None:
        """Let the shop end what was not out of time when it was asked first."""
        if requests := self.expire_requests():
            self._together(requests, lambda _number, _reply: None)

    def _wait_until(self, moment: float) -> None:
        seconds = moment - time.monotonic()
        if seconds > 0:
            self.observer.step(f"waiting {seconds:.0f} s until units are no longer held")
            time.sleep(seconds)

    def _let_carts_expire(self, moment: float) -> None:
        """Wait until carts are no longer held, and let every second buyer not come back.

        The others take the last step while their cart expires: they get their order, or the unit
        comes back, not both.
        """
        self._wait_until(moment)
        for number in range(1, len(self.buyers), 2):
            if number not in self.turned_away | self.left_out:
                self.left_out.add(number)
                self.last[number] = Refused("did not come back")

    def _expiry_of_carts(self) -> list[Request]:
        if self.plan.scene is Level.EXPIRY and self.carts_expire:
            return self.expire_requests()
        return []

    def _send(
        self,
        op: str,
        calls: Sequence[tuple[int, Request]],
        orders: Sequence[str] = (),
        *,
        answers: dict[int, Reply] | None = None,
        with_them: Sequence[Request] = (),
    ) -> list[Outcome]:
        """Send buyers' requests that are no purchases at one moment, and return what came of them.

        Args:
            op: what they do.
            calls: the buyers' numbers and their requests.
            orders: those that the requests are about, one each.
            answers: takes the reply to each call, by its place.
            with_them: further requests of the same moment, by nobody.
        """
        about = orders or [""] * len(calls)
        names = [
            self.invoke(op, number, "", 1, order)
            for (number, _), order in zip(calls, about, strict=True)
        ]
        outcomes: list[Outcome] = [Unknown("no answer")] * len(calls)

        def ended(index: int, reply: Reply) -> None:
            outcomes[index] = by_status(reply)
            if answers is not None:
                answers[index] = reply
            self.complete(names[index], op, reply, outcomes[index], about[index])

        requests = [request for _, request in calls]
        self._together([*requests, *with_them], ended_first(len(requests), ended))
        return outcomes

    def _send_one(self, request: Request) -> Response:
        return send(self.plan.address, request, timeout=STEP)

    def _together(self, requests: Sequence[Request], ended: Callable[[int, Reply], None]) -> None:
        address, release = self.plan.address, self.plan.release
        together(address, requests, release=release, timeout=ANSWERS, ended=ended)

    def _hear(self, number: int, key: str, call: str, reply: Reply) -> None:
        """Take in the answer to a last step."""
        outcome = self._outcome(number, reply)
        if isinstance(outcome, Accepted):
            self._followed.append((number, key, call, reply, outcome.ticket))
        else:
            self.take(number, key, call, reply, outcome)

    def _outcome(self, number: int, reply: Reply) -> Outcome | Accepted:
        """Let the adapter understand an answer; if it cannot, the outcome is unknown."""
        if reply.response is None:
            return unanswered(reply)
        step, response = "understanding an answer", reply.response
        [said] = each_within(STEP, [number], lambda n: self.understand(n, response), each=STEP)
        if not isinstance(said, Failed):
            return said
        if "took longer" in said.reason:
            raise RunImpossible(f"{step} {said.reason}")
        self.problems[f"{step} {said.reason}"] += 1
        return Unknown(f"{step} {said.reason}")


def ended_first(number: int, ended: Callable[[int, Reply], None]) -> Callable[[int, Reply], None]:
    """Tell of the first so many replies only."""

    def tell(index: int, reply: Reply) -> None:
        if index < number:
            ended(index, reply)

    return tell
