"""Every page of the admin is in Chinese for a user who has chosen Chinese."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse

from inventory.models import Item, Reservation, StockMovement
from shop import payments
from shop.catalogue.models import Product, Sale
from shop.orders.models import Order
from shop.payments.models import Refund
from shop.tests.catalogue import a_sale, an_order

pytestmark = pytest.mark.django_db(transaction=True)

OURS = {"accounts", "inventory", "shop"}
MODELS = [model for model in admin.site._registry if model._meta.app_label in OURS]

NOT_SHOWN = re.compile(
    r"<(script|style|svg|option|textarea)\b.*?</\1>|<!--.*?-->|<title>.*?</title>", re.DOTALL
)
DATA = {"admin", "phone", "Phone", "Redis", "CNY"}
"""Names, and what somebody typed."""

NO_WORDS = re.compile(r"[a-z]+\.[a-z_]+|buyer-[0-9a-f]{8}")
"""The topic of a message of the outbox, and a test's buyer, whose digits may all be letters."""

NOT_OURS = {"Model name", "Add link", "Change or view list link", "Lab", "Sale strategies"}
"""What Django 5.2 does not translate, and what a shop that was taken home does not have."""


def english(page: str) -> set[str]:
    """Return what a page shows in Latin letters: labels begin with one, keys and numbers do not."""
    main = page[page.index('<div id="content"') :]
    text = re.sub(r"<[^>]*>", "\n", NOT_SHOWN.sub("", main))
    phrases = re.findall(r"^\s*([A-Za-z][A-Za-z ,.:;'’-]{2,})\s*$", text, re.MULTILINE)
    shown = {phrase for phrase in phrases if not set(phrase.split()) <= DATA}
    return {phrase for phrase in shown - NOT_OURS if not NO_WORDS.fullmatch(phrase)}


@pytest.fixture
def chinese(admin_client: Client, fake_provider: Any) -> Client:
    payments.refund(payments.pay(an_order(a_sale())))
    an_order(a_sale())
    admin_client.cookies["django_language"] = "zh-hans"
    return admin_client


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_list_of_the_admin_is_in_chinese(chinese: Client, model: Any) -> None:
    page = chinese.get(
        reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
    )
    assert english(page.text) == set()


@pytest.mark.parametrize("model", [Item, Order, Product, Refund, Reservation, Sale, StockMovement])
def test_page_of_a_row_is_in_chinese(chinese: Client, model: Any) -> None:
    name = f"admin:{model._meta.app_label}_{model._meta.model_name}_change"
    page = chinese.get(reverse(name, args=[model.objects.order_by("pk")[0].pk]))
    assert english(page.text) == set()


def test_first_page_of_the_admin_is_in_chinese(chinese: Client) -> None:
    assert english(chinese.get(reverse("admin:index")).text) == set()


def test_english_is_found_on_an_english_page(admin_client: Client) -> None:
    assert {"Orders", "Refunds"} <= english(admin_client.get(reverse("admin:index")).text)
