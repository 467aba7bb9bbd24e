"""P21: buyers who have sales to themselves are answered exactly as the API promises."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

import msgspec

from loadtest.checker.evidence import Evidence
from loadtest.checker.properties.property import Need, Property
from loadtest.checker.verdict import Finding, Problem
from loadtest.history import CONNECTION_REFUSED, FAIL, INFO, OK, Operation, Told
from loadtest.purchases import WITH_ANOTHER
from loadtest.shop import Level, Offer, Possible, Question, Said, Specification, State

# Refusals of a request that the shop has not looked at.
_NOT_LOOKED_AT = ("busy", "rate_limited", CONNECTION_REFUSED)
# Calls that change nothing.
_READS = ("look", "read")
# A process remembers for a second what is left of a sale and whether units may come back (ns, with
# a quarter for its query).
_REMEMBERED = 1_250_000_000
# No request is under way any longer after this; clients wait for 10 s (ns).
_LONGEST = 30_000_000_000
# What the shop may hold is no longer told apart if it is one of more states than this.
_MOST = 400


class Call(NamedTuple):
    """A call of a walk and its answer; `coming`: whether that says that units may come back."""

    name: str
    asked: Question
    start: int
    end: int
    outcome: str
    said: Said
    coming: bool


class Held(NamedTuple):
    """What the shop may hold: a state of its specification, and calls that may yet happen."""

    state: State
    under_way: tuple[Call, ...] = ()


class _GivenUp(Exception):
    """Too much is unknown to judge the walks in a pair of sales any further."""


class AsPromised(Property):
    """Each answer to a buyer who was alone with a sale is one that the specification allows."""

    id, name, level = "P21", "contract", Level.SPECIFICATION
    needs = Need.WALKERS
    asks = "Who had a sale to themselves was answered exactly as the API promises."
    fails = "the last unit refused; a wrong number of units left; an order cancelled by word only"
    planted = "last unit sold out"

    def _judge(self, evidence: Evidence) -> Finding:
        offers = {
            sale: Offer(*values)
            for sale, *values in evidence.rows(
                """
                SELECT sale.id, opening.total, "limit", price, currency FROM sale
                JOIN opening ON opening.item = sale.item WHERE snapshot = 0
                """
            )
        }
        problems: list[Problem] = []
        answers = walks = to_the_end = given_up = 0
        by_sales = groupby(_walked(evidence), key=lambda walked: walked[0].partition("/")[0])
        for _, calls in by_sales:
            if (promised := evidence.specification()) is None:
                return self.unknown("there is no specification of this shop")
            walked = _Walked(promised, offers, faults=evidence.has_faults)
            try:
                problems += walked.problems(calls)
                to_the_end += 1
            except _GivenUp:
                given_up += 1
            answers, walks = answers + walked.answers, walks + walked.walks
        if not answers:
            return self.unknown("no buyer had a sale to themselves")
        good = f"{answers} answers in {walks} walks, each as promised"
        if given_up and not (to_the_end or problems):
            return self.unknown(
                f"too much was left unanswered to judge more than {answers} answers"
            )
        if given_up:
            good += f"; {given_up} pairs of sales given up, as too much was left unanswered"
        return self.judged(evidence, problems, good)


class _Walked:
    """What the shop may hold of a pair of sales, call by call.

    Args:
        specification: of the shop.
        offers: the sales.
        faults: whether faults were injected.
    """

    def __init__(
        self, specification: Specification, offers: dict[str, Offer], *, faults: bool
    ) -> None:
        self._shop, self._offers, self._faults = specification, offers, faults
        self._held = frozenset({Held(specification.opened(offers))})
        # What the shop may have held of late, and since when.
        self._past: deque[tuple[int, frozenset[Held]]] = deque([(0, self._held)])
        self._walk = ""
        self.answers = self.walks = 0

    def problems(self, walked: Iterator[tuple[str, Call]]) -> Iterator[Problem]:
        """The first answer that is not allowed: what follows it rests on nothing.

        Raises:
            _GivenUp: too much is unknown.
        """
        for walk, call in walked:
            if walk != self._walk:
                self._walk, self.walks = walk, self.walks + 1
                self._forget()
            allowed = self._hear(call)
            if allowed is not None:
                yield Problem(
                    "{asked}: answered {answer}; allowed: {allowed}",
                    {
                        "asked": _asked(call),
                        "answer": _spoken(call.said, {call.coming}),
                        "allowed": " or ".join(allowed),
                        "call": call.name,
                    },
                )
                return

    def _hear(self, call: Call) -> list[str] | None:
        """Take an answer in: what was allowed in its place, or None if it was."""
        if call.outcome == FAIL and call.said.code in _NOT_LOOKED_AT:
            return None
        if any(sale not in self._offers for sale, _ in call.asked.wanted):
            raise _GivenUp
        held = self._may_hold(call.start, self._held)
        if call.outcome == INFO:
            if call.asked.op not in _READS:
                held |= {_with_under_way(each, call) for each in held}
            if call.said.status and not self._faults:
                # It has ended, only nobody knows how: what the provider answered was lost.
                held = {_without(call, each) for each in self._may_hold(call.end, held)}
            self._settle(held, call.end)
            return None
        self.answers += 1
        recent = self._recently(call.start)
        # A sale is shown as it stood a moment ago; everything else is answered by what is so.
        past = call.asked.op == "look" and len(recent) > 1
        following, allowed = set(), set()
        for each in self._may_hold(call.start, frozenset().union(*recent)) if past else held:
            for answer in self._answers(each.state, call.asked):
                coming = self._coming(answer.coming, recent) if answer.coming else {False}
                if call.coming in coming and _fits(answer.said, call.said):
                    following.add(_after(call, each)._replace(state=answer.state))
                allowed.add(_spoken(answer.said, coming))
        if not following:
            return sorted(allowed)
        self._settle(held if past else following, call.end)
        return None

    def _answers(self, state: State, asked: Question) -> Iterator[Possible]:
        for answer in self._shop.answers(state, asked):
            yield answer
            if self._faults and answer.said.status == 201:
                # The reply to a commit was lost, and the shop has found its own order.
                yield answer._replace(said=answer.said._replace(status=200))

    def _may_hold(self, now: int, held: Iterable[Held]) -> set[Held]:
        """What the shop may hold with and without what is under way having happened."""
        found: set[Held] = set()
        new = [_without_old(each, now) for each in held]
        while new:
            each = new.pop()
            if each in found:
                continue
            found.add(each)
            for call in each.under_way:
                rest = _without(call, each)
                new += [
                    rest._replace(state=answer.state)
                    for answer in self._answers(each.state, call.asked)
                    if answer.said.status < 300
                ]
            if len(found) > _MOST:
                raise _GivenUp
        return found

    def _settle(self, held: set[Held], now: int) -> None:
        if len(held) > _MOST:
            raise _GivenUp
        self._held = frozenset(held)
        if self._past[-1][1] != self._held:
            self._past.append((now, self._held))

    def _recently(self, now: int) -> list[frozenset[Held]]:
        """What the shop may have held while a process remembers it, the latest last."""
        while len(self._past) > 1 and self._past[1][0] < now - _REMEMBERED:
            self._past.popleft()
        return [held for _, held in self._past]

    def _coming(self, sale: str, recent: list[frozenset[Held]]) -> set[bool]:
        """What a process may remember of whether units of a sale may come back."""
        found: set[bool] = set()
        for each in frozenset().union(*recent):
            found |= {True, False} if each.under_way else self._shop.may_come_back(each.state, sale)
        # While the database is unreachable, nothing is promised.
        return found | {False} if self._faults else found

    def _forget(self) -> None:
        """Forget orders of buyers who are gone, as far as they take no units."""
        self._held = frozenset(
            each._replace(state=self._shop.without_ended(each.state)) for each in self._held
        )


def _fits(right: Said, said: Said) -> bool:
    """Whether this is what had to be answered; an order is named where one has to be."""
    return right == (said if right.order is not None else said._replace(order=None))


def _after(call: Call, held: Held) -> Held:
    """What is held after an answer: a purchase that was granted does not happen once more."""
    if call.asked.op != "order" or call.outcome != OK:
        return held
    rest = [each for each in held.under_way if each.asked.key != call.asked.key]
    return held._replace(under_way=tuple(rest))


def _with_under_way(held: Held, call: Call) -> Held:
    """What is held if a call without an answer may yet happen; its repetition changes nothing."""
    others = [each for each in held.under_way if each.asked != call.asked]
    return held._replace(under_way=(*others, call))


def _without(call: Call, held: Held) -> Held:
    """What is held if a call is no longer under way."""
    return held._replace(under_way=tuple(each for each in held.under_way if each != call))


def _without_old(held: Held, now: int) -> Held:
    return held._replace(
        under_way=tuple(call for call in held.under_way if call.start + _LONGEST > now)
    )


def _walked(evidence: Evidence) -> Iterator[tuple[str, Call]]:
    """The calls of walks, by their sales and in order of time; those that must fail are P20's."""
    decode = msgspec.json.Decoder(Operation).decode
    rows = evidence.rows(
        """SELECT name, call FROM walk
        ORDER BY substr(name, 1, instr(name, '/') - 1), start"""
    )
    heard = ((name, decode(call)) for name, call in rows)
    # The lines of a cart are one call.
    for (name, _), lines in groupby(heard, key=lambda each: (each[0], _request(each[1]))):
        calls = [call for _, call in lines]
        if calls[0].op != "invalid":
            yield name, _call(calls)


def _request(call: Operation) -> str:
    return call.call.rpartition(".")[0] if call.cart else call.call


def _call(lines: list[Operation]) -> Call:
    first = lines[0]
    wanted = {
        line.sale or "": line.quantity for line in lines if line.op == "look" or line.quantity
    }
    # A cart's refusal names the line that it is about.
    refused = [line for line in lines if line.code != WITH_ANOTHER]
    about = refused[0].sale or "" if first.cart and refused[0].code in _OF_A_LINE else ""
    told = first.told or Told()
    return Call(
        first.call,
        Question(
            op=first.op,
            buyer=first.buyer,
            key=first.cart or first.key,
            wanted=tuple(sorted(wanted.items(), key=lambda line: int(line[0]))),
            cart=bool(first.cart),
            order=first.order,
        ),
        start=first.start,
        end=lines[-1].end,
        outcome=first.outcome,
        said=Said(
            first.status,
            refused[0].code,
            about,
            first.order,
            first.shown,
            told.available,
            told.left,
        ),
        coming=told.may_come_back,
    )


_OF_A_LINE = ("sold_out", "limit_reached")


def _asked(call: Call) -> str:
    asked = call.asked
    what = " and ".join(f"{units} of sale {sale}" for sale, units in asked.wanted if units)
    about = f" of order {asked.order}" if asked.order else ""
    return f"{call.name}, {asked.op}{about} ({what or 'all'}, key {asked.key or '-'})"


def _spoken(said: Said, coming: Collection[bool]) -> str:
    """What an answer says, in one line."""
    parts = [str(said.status), said.code, said.about and f"about sale {said.about}"]
    if said.shown is not None:
        shown = said.shown
        parts += [shown.status, f"amount {shown.amount} {shown.currency}"]
        if shown.refunded is not None:
            parts += [f"refunded {shown.refunded}", f"returned {shown.returned}"]
    for name in ("available", "left"):
        if (number := getattr(said, name)) is not None:
            parts.append(f"{name} {number}")
    if True in coming:
        parts.append("may come back or not" if False in coming else "may come back")
    return ", ".join(filter(None, parts))
