"""P19: the mails, as the mail server took them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from loadtest.checker.evidence import Evidence
from loadtest.checker.properties.property import Need, Property
from loadtest.checker.properties.told import untold
from loadtest.checker.verdict import Finding
from loadtest.shop import Level

# Which mail each event owes; the follow-ups that the snapshot names are owed to every order.
MAILS = {
    "paid": "paid",
    "paid_late": "paid",
    "expired": "expired",
    "refunded": "refunded",
    "money_owed": "money_owed",
}
CONFIRMATION = "confirmation"
WORDS = {
    CONFIRMATION: "reserved",
    "paid": "paid",
    "expired": "expired",
    "refunded": "refunded",
    "money_owed": "refunding",
}
"""What the subject of each mail says, in English."""
_NUMBER = re.compile(r"\d(?:[\d.,'’\u00a0\u202f]*\d)?")


class DeliveredMails(Property):
    """Each mail reached its buyer once, about the right order and amount; and no other did."""

    id, name, level = "P19", "delivery", Level.MAILS
    needs = Need.MAILS
    asks = "Each mail reached its buyer, once, about the right order and amount."
    fails = "a mail that is marked as sent and was not"
    planted = "mail marked as sent that never arrived"

    def _judge(self, evidence: Evidence) -> Finding:
        if not evidence.has_deliveries:
            return self.unknown("nobody looked at what the mail server took")
        if why := untold(evidence):
            return self.unknown(why)
        if not evidence.follow_up:
            return self.unknown("the snapshot does not name the mail that every order gets")
        if evidence.value(
            """
            SELECT count(*) FROM opened WHERE NOT EXISTS (
                SELECT 1 FROM buyer WHERE buyer.snapshot = 0 AND buyer.id = opened.buyer)
            """
        ):
            return self.unknown("the snapshot does not tell the addresses of all buyers")
        mails = evidence.value("SELECT count(*) FROM delivery")
        return self.judged(_problems(evidence), f"{mails} mails, each to its buyer")


def _problems(evidence: Evidence) -> Iterator[str]:
    yield from _not_once(evidence)
    yield from _not_owed(evidence)
    yield from _to_others(evidence)
    yield from _about_others(evidence)


def _owed(evidence: Evidence) -> str:
    """A table of all mails that are owed: order and name."""
    names = ", ".join(f"('{event}', '{mail}')" for event, mail in MAILS.items())
    every = " ".join(f"UNION SELECT id, '{name}' FROM opened" for name in evidence.follow_up)
    return f"""
        WITH owed (order_id, name) AS (
            SELECT order_id, column2 FROM event JOIN (VALUES {names}) ON column1 = event.name
            {every}
        )
    """


def _not_once(evidence: Evidence) -> Iterator[str]:
    """A crash may send a mail again, under the same Message-ID: mail programs show it once."""
    for order, name, mails, times in evidence.rows(
        f"""
        {_owed(evidence)}
        SELECT owed.order_id, owed.name, count(DISTINCT message) AS mails, count(message) AS times
        FROM owed LEFT JOIN delivery AS d ON d.order_id = owed.order_id AND d.name = owed.name
        GROUP BY owed.order_id, owed.name HAVING mails <> 1 OR (times > 1 AND NOT ?)
        """,
        evidence.has_faults,
    ):
        if not mails:
            yield f"order {order}: the mail {name} never reached the mail server"
        else:
            yield f"order {order}: the mail {name} was sent {times} times, as {mails} mails"


def _not_owed(evidence: Evidence) -> Iterator[str]:
    for message, recipient, order, name in evidence.rows(
        f"""
        {_owed(evidence)}
        SELECT message, recipient, order_id, name FROM delivery
        WHERE (order_id, name) NOT IN (SELECT order_id, name FROM owed)
        """
    ):
        yield f"mail {message} ({name}) to {recipient} is not owed for order {order or '?'}"


def _to_others(evidence: Evidence) -> Iterator[str]:
    for message, recipient, order, email in evidence.rows(
        """
        SELECT message, recipient, opened.id, email FROM delivery
        JOIN opened ON opened.id = delivery.order_id
        JOIN buyer ON buyer.snapshot = 0 AND buyer.id = opened.buyer
        WHERE lower(recipient) <> lower(email)
        """
    ):
        yield f"mail {message} about order {order} went to {recipient}, not to its buyer {email}"


def _about_others(evidence: Evidence) -> Iterator[str]:
    """A mail's text names its order, its lines, and an amount that the order had.

    Its subject says what has happened, and the confirmation until when to pay.
    """
    for message, order, name, subject, text, pay_before, lines, amounts in evidence.rows(
        """
        SELECT message, d.order_id, name, subject, subject || ' ' || text,
               strftime('%Y-%m-%d %H:%M', pay_before / 1000000, 'unixepoch'),
               (SELECT group_concat(quantity || ' ' || amount) FROM sold
                WHERE sold.order_id = d.order_id),
               group_concat(DISTINCT amounts.amount)
        FROM delivery AS d JOIN opened ON opened.id = d.order_id
        JOIN amounts ON amounts.order_id = d.order_id GROUP BY d.rowid
        """
    ):
        if not _names(text, order):
            yield f"mail {message} does not name order {order}"
        # Whatever separates them, the digits of an amount are those of its minor units.
        digits = {int(re.sub(r"\D", "", number)) for number in _NUMBER.findall(text)}
        if not digits & {int(amount) for amount in amounts.split(",")}:
            yield f"mail {message} names no amount of order {order}, which had {amounts}"
        for line in lines.split(","):
            if not {int(number) for number in line.split()} <= digits:
                yield f"mail {message} does not name a line of order {order}: {line}"
        if WORDS.get(name, "") not in subject.lower():
            yield f"mail {message} ({name}) about order {order} says something else: {subject}"
        if name == CONFIRMATION and pay_before not in text:
            yield f"mail {message} does not say that order {order} is to be paid by {pay_before}"


def _names(text: str, order: str) -> bool:
    """Whether a text has an id that is not a piece of another one; ids are of ASCII."""
    # No regular expression: one for each order would have to be compiled.
    at = text.find(order)
    while at >= 0:
        around = text[:at][-1:] + text[at + len(order) :][:1]
        if not any(each.isascii() and each.isalnum() for each in around):
            return True
        at = text.find(order, at + 1)
    return False
