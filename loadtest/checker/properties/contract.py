"""P21: buyers who have sales to themselves are answered exactly as the API promises."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from itertools import groupby

import msgspec

from loadtest.cart import WITH_ANOTHER
from loadtest.checker.contract_model import Contract, State, Terms, spoken
from loadtest.checker.evidence import Evidence
from loadtest.checker.order_model import Call
from loadtest.checker.properties.property import Need, Property
from loadtest.checker.verdict import Finding, Problem
from loadtest.history import CONNECTION_REFUSED, FAIL, INFO, Operation, Told
from loadtest.shop import Level

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


class _GivenUp(Exception):
    """Too much is unknown to judge the walks in a pair of sales any further."""


class AsPromised(Property):
    """Each answer to a buyer who was alone with a sale is one that the contract allows."""

    id, name, level = "P21", "contract", Level.STOCK
    needs = Need.WALKERS
    asks = "Who had a sale to themselves was answered exactly as the API promises."
    fails = "the last unit refused; a wrong number of units left; an order cancelled by word only"
    planted = "last unit sold out"

    def _judge(self, evidence: Evidence) -> Finding:
        terms = {
            sale: Terms(*values)
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
            walked = _Walked(Contract(terms, opened_twice=evidence.has_faults), evidence.has_faults)
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
    """What the shop may hold of a pair of sales, call by call."""

    def __init__(self, contract: Contract, faults: bool) -> None:
        self._contract, self._faults = contract, faults
        self._states = {State()}
        # What the shop may have held of late, and since when.
        self._past: deque[tuple[int, frozenset[State]]] = deque([(0, frozenset(self._states))])
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
                        "answer": spoken(call),
                        "allowed": " or ".join(allowed),
                        "call": call.name,
                    },
                )
                return

    def _hear(self, call: Call) -> list[str] | None:
        """Take an answer in: what was allowed in its place, or None if it was."""
        if call.outcome == FAIL and call.code in _NOT_LOOKED_AT:
            return None
        if any(sale not in self._contract.terms for sale, _ in call.wanted):
            raise _GivenUp
        states = self._may_be(call.start, self._states)
        if call.outcome == INFO:
            if call.op not in _READS:
                states |= {_with_under_way(state, call) for state in states}
            if call.status and not self._faults:
                # It has ended, only nobody knows how: what the provider answered was lost.
                states = {_without(call, state) for state in self._may_be(call.end, states)}
            self._settle(states, call.end)
            return None
        self.answers += 1
        recent = self._recently(call.start)
        waited = {sale: self._waited(sale, recent) for sale in self._contract.terms}
        # A sale is shown as it stood a moment ago; everything else is answered by what is so.
        past = call.op == "look" and len(recent) > 1
        following, allowed = set(), set()
        for state in self._may_be(call.start, frozenset().union(*recent)) if past else states:
            for answer in self._contract.possible(state, call, waited):
                if answer.fits(call):
                    following.add(answer.learn(call))
                allowed.add(spoken(answer))
        if not following:
            return sorted(allowed)
        self._settle(states if past else following, call.end)
        return None

    def _may_be(self, now: int, states: Collection[State]) -> set[State]:
        """The states with and without what is under way having happened."""
        found: set[State] = set()
        new = [_without_old(state, now) for state in states]
        while new:
            state = new.pop()
            if state in found:
                continue
            found.add(state)
            for call in state.under_way:
                rest = _without(call, state)
                waited = dict.fromkeys(self._contract.terms, (True, False))
                answers = self._contract.possible(rest, call, waited)
                new += [answer.state for answer in answers if answer.status < 300]
            if len(found) > _MOST:
                raise _GivenUp
        return found

    def _settle(self, states: set[State], now: int) -> None:
        if len(states) > _MOST:
            raise _GivenUp
        self._states = states
        if self._past[-1][1] != states:
            self._past.append((now, frozenset(states)))

    def _recently(self, now: int) -> list[frozenset[State]]:
        """What the shop may have held while a process remembers it, the latest last."""
        while len(self._past) > 1 and self._past[1][0] < now - _REMEMBERED:
            self._past.popleft()
        return [states for _, states in self._past]

    def _waited(self, sale: str, recent: list[frozenset[State]]) -> frozenset[bool]:
        """What a process may remember of whether units of a sale may come back."""
        values = frozenset().union(*(each.waiting(sale) for states in recent for each in states))
        # While the database is unreachable, nothing is promised.
        return values | {False} if self._faults else values

    def _forget(self) -> None:
        """Forget orders of buyers who are gone, as far as they take no units."""
        self._states = {
            state._replace(orders=tuple(order for order in state.orders if order.kept))
            for state in self._states
        }


def _with_under_way(state: State, call: Call) -> State:
    """A state in which a call without an answer may yet happen; its repetition changes nothing."""
    others = [
        c for c in state.under_way if (c.op, c.key, c.order) != (call.op, call.key, call.order)
    ]
    return state._replace(under_way=(*others, call))


def _without(call: Call, state: State) -> State:
    """A state in which a call is no longer under way."""
    return state._replace(under_way=tuple(c for c in state.under_way if c != call))


def _without_old(state: State, now: int) -> State:
    known = {order.key for order in state.orders}
    return state._replace(
        under_way=tuple(
            call
            for call in state.under_way
            if call.start + _LONGEST > now and not (call.op == "order" and call.key in known)
        )
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
        name=first.call,
        op=first.op,
        buyer=first.buyer,
        start=first.start,
        end=lines[-1].end,
        key=first.cart or first.key,
        wanted=tuple(sorted(wanted.items(), key=lambda line: int(line[0]))),
        cart=bool(first.cart),
        order=first.order,
        outcome=first.outcome,
        status=first.status,
        code=refused[0].code,
        about=about,
        shown=first.shown,
        available=told.available,
        left=told.left,
        may_come_back=told.may_come_back,
    )


_OF_A_LINE = ("sold_out", "limit_reached")


def _asked(call: Call) -> str:
    what = " and ".join(f"{units} of sale {sale}" for sale, units in call.wanted if units)
    about = f" of order {call.order}" if call.order else ""
    return f"{call.name}, {call.op}{about} ({what or 'all'}, key {call.key or '-'})"
