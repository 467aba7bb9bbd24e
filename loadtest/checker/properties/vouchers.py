"""P22: how often a voucher was used."""

from __future__ import annotations

from loadtest.checker.properties.property import Check, Property
from loadtest.shop import Level


class VoucherLimit(Property):
    """No more orders use a voucher than may."""

    id, name, level = "P22", "voucher", Level.VOUCHERS
    asks = "No voucher was used more often than allowed."
    fails = "counting the uses before the order is written (ACIDRain)"
    planted = "voucher used once too often"
    counts = "SELECT sum(uses) AS uses FROM voucher WHERE snapshot = 0"
    good = "{uses} uses, none beyond its limit"
    nothing = "no voucher was used"
    checks = (
        Check(
            "voucher {id} may be used {limit} times and is used by {uses} orders",
            'SELECT id, "limit", uses FROM voucher WHERE snapshot = 0 AND uses > "limit"',
        ),
    )
