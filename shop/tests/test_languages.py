"""Products have a name in each language of the shop."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.test import Client
from django.urls import reverse

from shop.catalogue.models import Product, ProductText
from shop.mails import rendering
from shop.mails.rendering import Kind
from shop.operating import checks
from shop.tests.catalogue import a_sale, an_order

pytestmark = pytest.mark.django_db(transaction=True)

SET_CHINESE = "UPDATE shop_product SET name_zh = %s, description_zh = %s"


@pytest.fixture
def german(settings: Any) -> None:
    """Let the shop speak English, Chinese and German."""
    settings.LANGUAGES = [*settings.LANGUAGES, ("de", "Deutsch")]


@pytest.mark.usefixtures("german")
@pytest.mark.parametrize(
    ("language", "name", "description"),
    [
        ("en", "Phone", "A phone."),
        ("de", "Telefon", "Ein Telefon."),
        ("zh-hans", "手机", "A phone."),
    ],
)
def test_product_page_has_the_name_in_the_visitors_language(
    client: Client, language: str, name: str, description: str
) -> None:
    cache.clear()
    sale = a_sale()
    Product.objects.update(description="A phone.")
    sale.product.texts.create(language="de", name="Telefon", description="Ein Telefon.")
    sale.product.texts.create(language="zh-hans", name="手机")
    client.cookies["django_language"] = language
    page = client.get(sale.get_absolute_url()).text
    assert f"<h1>{name}</h1>" in page
    assert description in page
    assert f">{name}</a></h3>" in client.get("/").text


@pytest.mark.usefixtures("german")
def test_mail_names_the_product_in_each_language() -> None:
    order = an_order(a_sale())
    for language, name in (("de", "Telefon"), ("zh-hans", "手机")):
        ProductText.objects.create(
            product=Product.objects.get(), language=language, name=name, description=""
        )
    said = rendering.message(Kind.CONFIRMATION, order).subject.split(" / ")
    assert [text.rpartition("× ")[2] for text in said] == ["Phone", "手机", "Telefon"]


@pytest.mark.usefixtures("german")
def test_home_page_reads_all_names_in_one_query(
    client: Client, django_assert_num_queries: Any
) -> None:
    client.cookies["django_language"] = "de"
    for number in range(3):
        product = Product.objects.create(name=str(number), slug=str(number), list_price=1)
        product.texts.create(language="de", name=f"Nummer {number}")
        a_sale(product=product)
    cache.clear()
    with django_assert_num_queries(4):
        page = client.get("/").text
    assert all(f"Nummer {number}" in page for number in range(3))


@pytest.mark.usefixtures("german")
def test_admin_takes_a_text_of_each_other_language(admin_client: Client) -> None:
    page = reverse("admin:shop_product_add")
    shown = admin_client.get(page).text
    assert shown.count('<option value="de">') == shown.count('<option value="zh-hans">') == 3
    form = {"name": "Lamp", "slug": "lamp", "list_price": "9.50", "currency": "CNY"}
    form["tax_rate"] = "19"
    rows: dict[str, Any] = {"texts-TOTAL_FORMS": 2, "texts-INITIAL_FORMS": 0}
    rows |= {"texts-0-language": "de", "texts-0-name": "Lampe"}
    rows |= {"texts-1-language": "en", "texts-1-name": "Lamp"}
    assert "Select a valid choice" in admin_client.post(page, form | rows).text
    rows |= {"texts-1-language": "zh-hans", "texts-1-name": "台灯"}
    assert admin_client.post(page, form | rows).status_code == 302
    texts = ProductText.objects.filter(product__slug="lamp").order_by("language")
    assert list(texts.values_list("language", "name")) == [("de", "Lampe"), ("zh-hans", "台灯")]


@pytest.mark.usefixtures("german")
def test_check_warns_of_a_language_without_a_catalogue() -> None:
    [warning] = checks.check_languages()
    assert "not translated into Deutsch (de)" in warning.msg


@pytest.mark.parametrize(
    ("first", "product", "text"),
    [
        ("en", ("Phone", "A phone."), ("zh-hans", "手机", "")),
        ("zh-hans", ("手机", "A phone."), ("en", "Phone", "A phone.")),
    ],
)
def test_migration_keeps_chinese_names(
    settings: Any, first: str, product: tuple[str, str], text: tuple[str, str, str]
) -> None:
    settings.LANGUAGE_CODE = first
    migration = importlib.import_module("shop.migrations.0007_product_texts")
    state = MigrationLoader(connection).project_state(("shop", "0006_index_of_listed_sales"))
    migration.Migration.operations[0].state_forwards("shop", state)
    Product.objects.create(name="Phone", slug="phone", description="A phone.", list_price=1)
    with connection.cursor() as cursor:
        cursor.execute(SET_CHINESE, ["手机", ""])
    migration.copy_texts(state.apps, SimpleNamespace(connection=connection))
    assert Product.objects.values_list("name", "description").get() == product
    assert ProductText.objects.values_list("language", "name", "description").get() == text
