"""What the audit says of refunds, here and at the provider."""

from __future__ import annotations

from shop.audit import money
from shop.audit.money import Ours, Theirs

OURS = Ours(3, 7, "pi_1", "captured", "CNY", amount=1_000, back=400, on_the_way=0)


def test_a_refund_that_the_provider_never_gave_is_found():
    given = {"pi_1": Theirs(7, "CNY", captured=1_000, refunded=400)}
    assert money._not_at_the_provider({"pi_1": OURS}, given) == []
    kept = {"pi_1": Theirs(7, "CNY", captured=1_000, refunded=300)}
    [problem] = money._not_at_the_provider({"pi_1": OURS}, kept)
    assert problem.startswith("payment 3 of order 7: 4.00 CNY went back")
