"""P22: how often a voucher was used."""

from __future__ import annotations

from collections.abc import Iterator

from loadtest.checker.evidence import Evidence
from loadtest.checker.properties.property import Property
from loadtest.checker.verdict import Finding
from loadtest.shop import Level


class VoucherLimit(Property):
    """No more orders use a voucher than may."""

    id, name, level = "P22", "voucher", Level.VOUCHERS
    asks = "No voucher was used more often than allowed."
    fails = "counting the uses before the order is written (ACIDRain)"
    planted = "voucher used once too often"

    def _judge(self, evidence: Evidence) -> Finding:
        uses = evidence.value("SELECT sum(uses) FROM voucher WHERE snapshot = 0")
        if not uses:
            return self.unknown("no voucher was used")
        return self.judged(_overused(evidence), f"{uses} uses, none beyond its limit")


def _overused(evidence: Evidence) -> Iterator[str]:
    for voucher, limit, uses in evidence.rows(
        'SELECT id, "limit", uses FROM voucher WHERE snapshot = 0 AND uses > "limit"'
    ):
        yield f"voucher {voucher} may be used {limit} times and is used by {uses} orders"
