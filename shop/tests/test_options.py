"""A shop without pages, without payments, in one language, as their variables say."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.checks import run_checks
from django.test import Client, override_settings
from django.urls import clear_url_caches

import shop.urls
from shop.conftest import Buyer, api_handler
from shop.mails.rendering import Kind, message
from shop.payments.provider import provider
from shop.tests.catalogue import an_order
from shop.tests.test_settings import PRODUCTION, start

pytestmark = pytest.mark.django_db(transaction=True)

PAYMENTS = {name for name in PRODUCTION if name.startswith("PSP_")}


@pytest.fixture
def urls_with() -> Iterator[Callable[..., None]]:
    """Read the URLs again with other settings."""
    changed = override_settings()

    def read() -> None:
        importlib.reload(shop.urls)
        clear_url_caches()
        api_handler.cache_clear()

    def change(**values: Any) -> None:
        changed.options.update(values, ROOT_URLCONF="shop.urls")
        changed.enable()
        read()

    yield change
    changed.disable()
    read()


def test_shop_without_pages_has_api_admin_and_documentation(
    urls_with: Callable[..., None], ann: Buyer, sale: Any, admin_client: Client
) -> None:
    order = ann.order(sale)
    urls_with(SHOP_PAGES=False)
    visitor = Client()
    for path in ("/sign-in/", "/cart/", f"/sales/{sale.pk}/", f"/orders/{order}/"):
        answer = visitor.get(path)
        assert answer.status_code == 404
        assert answer.json()["code"] == "not_found"
    assert ann.get(f"orders/{order}").json()["id"] == order
    assert visitor.get("/api/v1/openapi.json").json()["paths"]
    assert visitor.get("/").headers["Location"] == "/api/docs"
    assert 'id="sold_out"' in visitor.get("/api/docs").content.decode()
    assert admin_client.get(f"/admin/shop/order/{order}/change/").status_code == 200
    assert admin_client.get("/admin/nothing/").status_code == 404


@pytest.mark.long
def test_shop_without_payments_needs_no_provider(
    urls_with: Callable[..., None],
) -> None:
    urls_with(PAYMENT_PROVIDER="")
    assert Client().post("/api/v1/webhooks/psp").status_code == 404
    given = {name: value for name, value in PRODUCTION.items() if name not in PAYMENTS}
    assert "PSP_URL" in start("check", **given).stderr
    assert "shop.E003" not in start("check", **given | {"SHOP_PAYMENTS": "0"}).stderr


def test_provider_that_cannot_be_loaded_is_reported_at_the_start(settings: Any) -> None:
    provider.cache_clear()
    for wrong in ("shop.payments.nobody.Provider", "shop.payments.provider.Provider"):
        settings.PAYMENT_PROVIDER = wrong
        assert [check.id for check in run_checks()] == ["shop.E004"]
    settings.PAYMENT_PROVIDER = ""
    assert run_checks() == []


def test_public_url_is_required_for_links_in_mails(
    urls_with: Callable[..., None],
) -> None:
    assert Client().get("/password-reset/").status_code == 200
    urls_with(PUBLIC_URL="")
    assert Client().get("/password-reset/").status_code == 404


def test_shop_with_one_language_offers_no_other(ann: Buyer, sale: Any, settings: Any) -> None:
    settings.LANGUAGES = [("en", "English")]
    order = an_order(sale)
    written = message(Kind.CONFIRMATION, order)
    [(html, _)] = written.alternatives
    refused = ann.buy(sale, 3, accept_language="zh-Hans;q=0.31").json()["title"]
    shown = Client().get("/", headers={"accept-language": "zh-Hans"}).content.decode()
    for text in (str(written.subject), str(written.body), str(html), refused, shown):
        assert not any("\u4e00" <= character <= "\u9fff" for character in text)
    assert 'name="language"' not in shown
