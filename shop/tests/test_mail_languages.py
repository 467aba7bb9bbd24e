"""Each mail says everything in each of the shop's languages, whatever the worker's language is."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from typing import Any
from uuid import uuid4

import pytest
from django.core.mail import EmailMessage
from django.utils.translation import gettext, override

from shop import orders
from shop.accounts.models import PendingAddress
from shop.mails import rendering, sending
from shop.mails.rendering import TEXTS, WITHOUT_PAYMENTS, Kind
from shop.orders.models import Order
from shop.tests.catalogue import a_buyer, a_sale, an_order

pytestmark = pytest.mark.django_db(transaction=True)

LANGUAGES = ("en", "zh-hans")
CHINESE = re.compile("[\u4e00-\u9fff]{2,}")
ENGLISH = re.compile("[A-Za-z]{3,} [a-z]{2,} [a-z]{2,}")


def _about_order(kind: Kind) -> EmailMessage:
    return rendering.message(kind, an_order(a_sale(limit=2), quantity=2))


def _reset() -> EmailMessage | None:
    return sending._reset_mail([a_buyer().pk])


def _confirmation() -> EmailMessage | None:
    user = a_buyer()
    PendingAddress.objects.create(user=user, address=user.email)
    return sending._confirmation_mail(user.pk)


MAILS: dict[str, Callable[[], EmailMessage | None]] = {
    **{kind: (lambda kind=kind: _about_order(kind)) for kind in Kind},  # type: ignore[misc]
    "reset": _reset,
    "confirmation of an address": _confirmation,
}


def texts_of(mail: EmailMessage) -> list[str]:
    alternatives: list[Any] = getattr(mail, "alternatives", [])
    return [str(mail.subject), str(mail.body), *(str(content) for content, _ in alternatives)]


@pytest.mark.parametrize(("name", "of_worker"), [*product(MAILS, LANGUAGES)])
def test_mail_is_in_both_languages_from_any_worker(name: str, of_worker: str) -> None:
    with override(of_worker):
        mail = MAILS[name]()
    assert mail
    subject, *bodies = texts_of(mail)
    english, chinese = subject.split(" / ")
    assert re.search("[A-Za-z]{3,}", english)
    assert not CHINESE.search(english)
    assert CHINESE.search(chinese)
    for body in bodies:
        assert CHINESE.search(body)
        assert ENGLISH.search(body)


def test_mail_labels_are_in_both_languages() -> None:
    order = an_order(a_sale(limit=2), quantity=2)
    orders.cancel(order, orders.Part(1, uuid4(), order.lines.get().sale_id))
    labels = []
    for language in LANGUAGES:
        with override(language):
            labels += [gettext(text) for text in ("Pay before", "Total", "Cancelled", "Order")]
    for language in LANGUAGES:
        with override(language):
            mail = rendering.message(Kind.CONFIRMATION, Order.objects.get(pk=order.pk))
        for text in texts_of(mail)[1:]:
            assert [label for label in labels if label not in text] == []


def test_mail_kinds_say_different_things() -> None:
    for texts in (TEXTS, TEXTS | WITHOUT_PAYMENTS):
        for language in LANGUAGES:
            with override(language):
                said = [(str(heading), str(body)) for heading, body in texts.values()]
            assert len({heading for heading, _ in said}) == len(Kind)
            assert len({body for _, body in said}) == len(Kind)
