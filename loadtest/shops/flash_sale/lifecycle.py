"""The statuses of our shop's orders, the steps between them, and the mails that follow."""

from __future__ import annotations

from loadtest.checker.snapshot import CONFIRMED, HELD, RELEASED, Mail, Row, Status, Step

LIFECYCLE: tuple[Row, ...] = (
    Status("awaiting_payment", 0, HELD, paid=False),
    Status("expired", 1, RELEASED, paid=False),
    Status("cancelled", 1, RELEASED, paid=False),
    Status("paid", 2, CONFIRMED, paid=True),
    Status("fulfilled", 3, CONFIRMED, paid=True),
    Status("refund_pending", 3, RELEASED, paid=True),
    Status("refunded", 4, RELEASED, paid=False),
    Step("paid", before="awaiting_payment", after="paid", mail="paid"),
    Step("paid_late", before="expired", after="paid", mail="paid"),
    Step("fulfilled", before="paid", after="fulfilled"),
    Step("expired", "expire", before="awaiting_payment", after="expired", mail="expired"),
    Step("cancelled", "cancel", before="awaiting_payment", after="cancelled"),
    Step("returned", "refund", before="paid", after="refund_pending"),
    Step("refunded", before="refund_pending", after="refunded", mail="refunded"),
    Step("refund_reopened", before="refunded", after="refund_pending"),
    Step("part_cancelled", "cancel"),
    Step("part_returned", "refund"),
    Step("money_owed", "owe", mail="money_owed"),
    Step("money_back", "give_back"),
    Step("refund_failed", "stuck"),
    Mail("confirmation", "reserved", deadline=True),
    Mail("paid", "paid"),
    Mail("expired", "expired"),
    Mail("refunded", "refunded"),
    Mail("money_owed", "refunding"),
)
