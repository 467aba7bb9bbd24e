"""What the audit says of refunds, here and at the provider."""

from __future__ import annotations

import pytest

from shop import payments
from shop.audit import late, money
from shop.audit.money import Ours, Theirs
from shop.payments.models import Refund
from shop.tests.catalogue import a_sale, an_order

OURS = Ours(3, 7, "pi_1", "captured", "CNY", amount=1_000, back=400, on_the_way=0)


@pytest.mark.django_db(transaction=True)
def test_a_refund_that_the_provider_refused_is_listed():
    payments.refund(payments.pay(an_order(a_sale())))
    assert late.work() == []
    Refund.objects.update(state=Refund.State.FAILED)
    assert late.work() == ["1 refunds were refused by the provider"]


def test_a_refund_that_the_provider_never_gave_is_found():
    given = {"pi_1": Theirs(7, "CNY", captured=1_000, refunded=400)}
    assert money._not_at_the_provider({"pi_1": OURS}, given) == []
    kept = {"pi_1": Theirs(7, "CNY", captured=1_000, refunded=300)}
    [problem] = money._not_at_the_provider({"pi_1": OURS}, kept)
    assert problem.startswith("payment 3 of order 7: 4.00 CNY went back")
