"""A buyer who tries everything, with two friends, in sales that nobody else uses meanwhile.

Whoever is alone with a sale knows what the shop must answer. So the calls follow each other, and
the checker compares each answer with a model of the contract (P21). Short stories lead to the edges
that a random walk seldom meets; the rest of the walk is random.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random

from loadtest.purchases import Cart, Part, Sale
from loadtest.scenarios.asking import order_with_retries
from loadtest.scenarios.steps import Bought, Walk
from loadtest.shopper import Shopper

# Random steps between two stories, and seconds after which no further one begins.
STEPS, LONGEST = 15, 25.0
# Seconds between two steps, at most, and until a provider has given money back.
BREATH, BACK = 0.02, 0.6


def walk(shopper: Shopper, random: Random) -> None:
    """Walk through own sales, if some are free; buy like others otherwise."""
    with shopper.crowd.own.use() as own:
        if own is None:
            order_with_retries(shopper, shopper.wants(), random)
            return
        buyers = [shopper, shopper.friend(1), shopper.friend(2)]
        for each in buyers:
            each.walk = f"{own.name}/{shopper.name}"
        try:
            _walk(Walk(buyers, own.sales, random))
        finally:
            shopper.walk = ""
            for friend in buyers[1:]:
                friend.leave()


def _walk(walk: Walk) -> None:
    one, other = walk.sales
    stories: list[Callable[[Walk], None]] = [
        lambda walk: _sell_out(walk, one),
        lambda walk: _sell_out(walk, other),
        _give_parts_back,
        _share_a_cart,
        _go_wrong_ways,
    ]
    end = time.monotonic() + LONGEST
    for story in walk.random.sample(stories, len(stories)):
        if time.monotonic() > end:
            break
        walk.give_all_back()
        story(walk)
        for _ in range(STEPS):
            _step(walk)
            walk.pause(walk.random.random() * BREATH)
    walk.give_all_back()


# Stories.


def _sell_out(walk: Walk, sale: Sale) -> None:
    """Buy the last unit; ask again while it is sold out, unpaid and paid; take what comes back."""
    first, second, third = walk.random.sample(walk.buyers, 3)
    most = walk.buy(first, sale, sale.limit)
    walk.pause()
    rest = walk.buy(second, sale, max(1, walk.look(sale)))
    if most is None or rest is None:
        return
    walk.buy(third, sale, 1)
    walk.pause()
    walk.buy(third, sale, 1)
    walk.look(sale)
    walk.ask(third, Cart.of(dict.fromkeys(walk.sales, 1)))
    for each in (most, rest):
        walk.again(each)
        walk.buy(each.buyer, sale, 1)
    added = _restock(walk, third, sale) if _units(most, rest) < 2 * sale.limit else None
    walk.cancel(rest)
    last = walk.buy(third, sale, _units(rest))
    for each in filter(None, (last, most, rest)):
        walk.again(each)
    for each in filter(None, (added, last, most)):
        walk.pay_for_sure(each)
        walk.read(each)
    walk.pause()
    walk.buy(second, sale, 1)
    walk.look(sale)
    walk.refund(most)
    walk.buy(second, sale, 1)


def _units(*bought: Bought) -> int:
    return sum(units for each in bought for units in each.lines.values())


def _restock(walk: Walk, buyer: Shopper, sale: Sale) -> Bought | None:
    """Add a unit, with which two buyers can still buy the sale out: it is for sale at once."""
    buyer.restock(sale, 1)
    first = walk.buy(buyer, sale, 1)
    if first is None:
        return None
    walk.again(first)
    walk.cancel(first)
    return walk.buy(buyer, sale, 1)


def _give_parts_back(walk: Walk) -> None:
    """Cancel parts, pay for the rest, return parts of that, each also twice and too much."""
    sale = max(walk.sales, key=lambda sale: sale.limit)
    buyer = walk.random.choice(walk.buyers)
    for paying in (False, True):
        walk.give_all_back()
        bought = walk.buy(buyer, sale, sale.limit)
        if bought is None:
            return
        if paying:
            walk.pay(bought)  # while the provider is at it, parts can be cancelled
        _give_part_back(walk, bought, "cancel", Part(sale.limit - 1, sale))
        walk.pay_for_sure(bought)
        walk.pause(BACK)
        walk.read(bought)
        _give_part_back(walk, bought, "refund", Part(1, sale))
    walk.buy(buyer, sale, sale.limit)


def _give_part_back(walk: Walk, bought: Bought, step: str, part: Part) -> None:
    sale = part.sale
    walk.give_part(bought, step, part)
    walk.read(bought)
    walk.give_part(bought, step, part)
    walk.give_part(bought, step, Part(part.quantity % sale.limit + 1, sale, key=part.key))
    walk.give_part(bought, step, Part(sale.limit, sale))
    walk.pause(BACK)
    walk.read(bought)


def _share_a_cart(walk: Walk) -> None:
    """Order from both sales; cancel a line, pay for the other one and return it."""
    one, other = walk.sales
    buyer = walk.random.choice(walk.buyers)
    small = walk.ask(buyer, Cart.of({walk.random.choice(walk.sales): 1}))
    if small is not None:
        walk.differently(small)
    cart = walk.ask(buyer, Cart.of({one: 1, other: 2}))
    if cart is None:
        return
    walk.again(cart)
    walk.again(cart)
    walk.differently(cart)
    walk.give_unnamed_part(cart, "cancel")
    line = walk.random.choice(walk.sales)
    walk.give_part(cart, "cancel", Part(cart.lines[line], line))
    walk.pay_for_sure(cart)
    walk.read(cart)
    walk.refund(cart)
    walk.again(cart)


def _go_wrong_ways(walk: Walk) -> None:
    """Return what is not paid, cancel what is, pay what has ended, use what is another's."""
    buyer, sale = walk.random.choice(walk.buyers), walk.random.choice(walk.sales)
    bought, given_up = walk.buy(buyer, sale, 1), walk.buy(buyer, sale, 1)
    if bought is None or given_up is None:
        return
    walk.send_invalid(bought)
    for each in (bought, given_up):
        walk.differently(each)
        walk.use_anothers(each)
        walk.refund(each)
        walk.give_part(each, "refund", Part(1, sale))
    walk.pay_for_sure(bought)
    walk.cancel(given_up)
    for each in (bought, given_up):
        walk.use_anothers(each)
        walk.pay(each)
        walk.cancel(each)
        walk.give_part(each, "cancel", Part(1, sale))
        walk.refund(each)
    walk.again(given_up)
    for step in (walk.refund, walk.cancel, walk.pay, walk.read):
        step(bought)
    torn = walk.buy(buyer, sale, 1)
    if torn is not None:
        for step in (walk.pay, walk.cancel, walk.pay, walk.read):
            step(torn)


# Random steps.


def _step(walk: Walk) -> None:
    random, buyer = walk.random, walk.random.choice(walk.buyers)
    sale = random.choice(walk.sales)
    alone: list[Callable[[], object]] = [
        *(lambda: walk.buy(buyer, sale, random.randint(1, sale.limit + 1)),) * 3,
        lambda: walk.ask(buyer, Cart.of({each: random.randint(1, 2) for each in walk.sales})),
        lambda: walk.look(sale),
        walk.change_process,
    ]
    if walk.asked:
        alone.append(lambda: walk.ask(*random.choice(walk.asked)))
    if not walk.bought or random.random() < 0.4:
        random.choice(alone)()
    else:
        _step_of(walk, random.choice(walk.bought[-6:]))


def _step_of(walk: Walk, bought: Bought) -> None:
    random = walk.random
    sale = random.choice(walk.sales)
    part = Part(random.randint(1, 3), sale)
    giving = random.choice(["cancel", "refund"])
    steps: list[Callable[[], None]] = [
        *(lambda: walk.give_part(bought, giving, part),) * 4,
        lambda: walk.give_unnamed_part(bought, giving),
        *(lambda: walk.pay(bought),) * 3,
        *(lambda: walk.cancel(bought),) * 2,
        *(lambda: walk.refund(bought),) * 2,
        *(lambda: walk.read(bought),) * 2,
        lambda: walk.again(bought),
        lambda: walk.differently(bought),
        lambda: walk.use_anothers(bought),
    ]
    if walk.parts:
        steps.append(lambda: walk.give_part(*random.choice(walk.parts)))
    random.choice(steps)()
