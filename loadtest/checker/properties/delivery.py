"""P10 and P19: what had to happen after the commit, and the mails as the mail server took them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from loadtest.checker.evidence import Evidence
from loadtest.checker.properties.property import Check, Need, Property
from loadtest.checker.verdict import Problem
from loadtest.shop import Level


class FollowUpComplete(Property):
    """Each follow-up took effect exactly once per order, and no message is left."""

    id, name, level = "P10", "follow-up complete", Level.MAILS
    asks = "The follow-up of each order happened exactly once."
    fails = "messages lost with the broker, mails sent twice"
    planted = "follow up missing"
    counts = """
        SELECT (SELECT count(*) FROM opened) AS orders,
               (SELECT group_concat(value, ', ') FROM json_each(:follow_up)) AS names
    """
    good = "{orders} orders, each followed up exactly once ({names})"
    checks = (
        Check(
            "order {order}: {name} took effect {times} times",
            """
            SELECT o.id AS "order", wanted.value AS name, coalesce(sum(count), 0) AS times
            FROM opened AS o CROSS JOIN json_each(:follow_up) AS wanted
            LEFT JOIN effect ON effect.snapshot = 0 AND effect.order_id = o.id
                AND effect.name = wanted.value
            GROUP BY wanted.value, o.id HAVING times <> 1
            """,
        ),
        Check(
            "{name} of order {order}, which is not there",
            """
            SELECT order_id AS "order", name FROM effect WHERE snapshot = 0
            AND NOT EXISTS (SELECT 1 FROM opened WHERE opened.id = order_id)
            """,
        ),
        Check(
            "message {id} ({topic}) is not done",
            "SELECT id, topic FROM outbox WHERE snapshot = 0 AND NOT done",
        ),
    )

    def missing(self, evidence: Evidence) -> str:
        """Ask for the follow-ups that each order must have."""
        return "" if evidence.follow_up else "the snapshot names no follow-up"


_NUMBER = re.compile(r"\d(?:[\d.,'’\u00a0\u202f]*\d)?")
_MINUTE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d")


# All mails that must be sent: order and name. The follow-ups that the snapshot names are sent for
# every order.
_EXPECTED = """
    WITH expected (order_id, name) AS (
        SELECT order_id, mail FROM happened WHERE mail <> '' AND (order_id, happened.id) NOT IN
            (SELECT order_id, number FROM state JOIN opened ON opened.id = order_id
             WHERE total = 0 AND op = '' AND state.stock = 'confirmed')
        UNION SELECT opened.id, value FROM opened CROSS JOIN json_each(:follow_up)
    )
"""
# A crash may send a mail again, under the same Message-ID: mail programs show it once.
_SENT = f"""
    {_EXPECTED}
    SELECT expected.order_id AS "order", expected.name, count(DISTINCT message) AS mails,
           count(message) AS times
    FROM expected
    LEFT JOIN delivery AS d ON d.order_id = expected.order_id AND d.name = expected.name
    GROUP BY expected.order_id, expected.name
"""


class DeliveredMails(Property):
    """Each mail reached its buyer once, about the right order and amount; and no other did."""

    id, name, level = "P19", "delivery", Level.MAILS
    needs = Need.MAILS
    asks = "Each mail reached its buyer, once, about the right order and amount."
    fails = "a mail that is marked as sent and was not"
    planted = "mail marked as sent that never arrived"
    counts = "SELECT count(*) AS mails FROM delivery"
    good = "{mails} mails, each to its buyer"
    checks = (
        Check(
            "order {order}: the mail {name} never reached the mail server",
            f"{_SENT} HAVING mails = 0",
        ),
        Check(
            "order {order}: the mail {name} was sent {times} times, as {mails} mails",
            f"{_SENT} HAVING mails > 1 OR (mails = 1 AND times > 1 AND NOT :has_faults)",
        ),
        Check(
            "mail {message} ({name}) to {recipient} is not expected for order {order}",
            f"""
            {_EXPECTED}
            SELECT message, recipient, iif(order_id = '', '?', order_id) AS "order", name
            FROM delivery WHERE (order_id, name) NOT IN (SELECT order_id, name FROM expected)
            """,
        ),
        Check(
            "mail {message} about order {order} went to {recipient}, not to its buyer {email}",
            """
            SELECT message, recipient, opened.id AS "order", email FROM delivery
            JOIN opened ON opened.id = delivery.order_id
            JOIN buyer ON buyer.snapshot = 0 AND buyer.id = opened.buyer
            WHERE lower(recipient) <> lower(email)
            """,
        ),
    )

    def missing(self, evidence: Evidence) -> str:
        """Ask for what the mail server took, and to whom it was to go."""
        if not evidence.has_deliveries:
            return "nobody looked at what the mail server took"
        if why := evidence.untold():
            return why
        if not evidence.follow_up:
            return "the snapshot does not name the mail that every order gets"
        if evidence.value(
            """
            SELECT count(*) FROM opened WHERE NOT EXISTS (
                SELECT 1 FROM buyer WHERE buyer.snapshot = 0 AND buyer.id = opened.buyer)
            """
        ):
            return "the snapshot does not tell the addresses of all buyers"
        return ""

    def problems(self, evidence: Evidence) -> Iterator[Problem]:
        """What the books show, and what is wrong in the mails' texts."""
        yield from super().problems(evidence)
        for mail in evidence.facts(_MAILS):
            for says in _wrong(mail):
                yield Problem(says, mail)


_MAILS = """
    SELECT message, d.order_id AS "order", d.name, d.subject, d.subject || ' ' || text AS text,
           CASE WHEN opened.total > 0 THEN mail.subject END AS occasion,
           deadline AND opened.total > 0 AS deadline,
           strftime('%Y-%m-%d %H:%M', pay_before / 1000000, 'unixepoch') AS until,
           strftime('%Y-%m-%d %H:%M', (opened.created + coalesce((SELECT min(hold) FROM sold
               JOIN sale ON sale.snapshot = 0 AND sale.id = sold.sale AND hold > 0
               WHERE sold.order_id = opened.id), pay_before - opened.created)) / 1000000,
               'unixepoch') AS first,
           (SELECT group_concat(quantity || ' ' || amount) FROM sold
            WHERE sold.order_id = d.order_id) AS bought,
           group_concat(DISTINCT amounts.amount) AS amounts
    FROM delivery AS d JOIN opened ON opened.id = d.order_id LEFT JOIN mail ON mail.name = d.name
    JOIN amounts ON amounts.order_id = d.order_id GROUP BY d.rowid
"""


def _wrong(mail: Mapping[str, Any]) -> Iterator[str]:
    """A mail's text names its order, its lines, and an amount that the order had.

    Its subject says what has happened, and that of an unpaid order until when to pay. An order that
    cost nothing from the beginning is confirmed by its first mail.
    """
    if not _names(mail["text"], mail["order"]):
        yield "mail {message} does not name order {order}"
    # Whatever separates them, the digits of an amount are those of its minor units.
    digits = {int(re.sub(r"\D", "", number)) for number in _NUMBER.findall(mail["text"])}
    if not digits & {int(amount) for amount in mail["amounts"].split(",")}:
        yield "mail {message} names no amount of order {order}, which had {amounts}"
    if any(not {int(n) for n in line.split()} <= digits for line in mail["bought"].split(",")):
        yield "mail {message} does not name each line of order {order}: {bought}"
    if (mail["occasion"] or "") not in mail["subject"].lower():
        yield "mail {message} ({name}) about order {order} says something else: {subject}"
    # The buyer's part of a payment may have moved it after the mail.
    named = _MINUTE.findall(mail["text"])
    if mail["deadline"] and not any(mail["first"] <= minute <= mail["until"] for minute in named):
        yield "mail {message} does not say that order {order} is to be paid by {until}"


def _names(text: str, order: str) -> bool:
    """Whether a text has an id that is not a piece of another one; ids are of ASCII."""
    # No regular expression: one for each order would have to be compiled.
    at = text.find(order)
    while at >= 0:
        around = text[:at][-1:] + text[at + len(order) :][:1]
        if not any(character.isascii() and character.isalnum() for character in around):
            return True
        at = text.find(order, at + 1)
    return False
