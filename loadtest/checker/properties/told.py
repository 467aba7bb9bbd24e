"""Whether the final snapshot tells enough of its orders to judge what they went through."""

from __future__ import annotations

from loadtest.checker.evidence import Evidence


def untold(evidence: Evidence) -> str:
    """Say what the snapshot does not tell of its orders; empty if it tells all."""
    if evidence.value("SELECT count(*) FROM opened WHERE created = 0 OR pay_before = 0"):
        return "the snapshot does not tell when orders were opened and were to be paid"
    if evidence.value("SELECT count(*) FROM opened WHERE currency = ''"):
        return "the snapshot does not tell the currency of orders"
    moved = evidence.value("SELECT count(*) FROM opened WHERE status <> 'awaiting_payment'")
    if moved and not evidence.value("SELECT count(*) FROM event"):
        return f"the snapshot tells no events, though {moved} orders are paid or have ended"
    return ""
