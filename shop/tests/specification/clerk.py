"""The door of a clerk, who may find everything in the admin and change nothing."""

from __future__ import annotations

from collections.abc import Iterator

from django.apps import apps
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse

from inventory.models import OutboxMessage
from shop.accounts.models import User
from shop.tests.specification.operator import Operator, page_of
from shop.tests.specification.page import forms, read

LISTS = (
    *("shop_sale", "shop_product", "shop_order", "shop_refund", "shop_alert"),
    *("inventory_item", "inventory_outboxmessage"),
)

FOUND_BY = {
    "shop_sale": ("id", "product__name", "item__id"),
    "shop_product": ("name", "slug"),
    "shop_order": ("id", "buyer__username", "lines__sale__id", "lines__reservation__key"),
    "shop_refund": ("id", "payment__order__id", "number", "key"),
    "shop_alert": ("text",),
    "inventory_item": ("id", "name"),
    "inventory_reservation": ("id", "buyer", "scope", "key", "item__id"),
    "inventory_stockmovement": ("id", "item__id", "item__name"),
    "inventory_outboxmessage": ("id", "key", "topic"),
}
"""What people look for in each list."""


class Clerk:
    """A clerk beside an operator."""

    def __init__(self, operator: Operator) -> None:
        self.operator, self.world = operator, operator.world
        user, _ = User.objects.get_or_create(username="clerk", is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
        self.browser = Client()
        self.browser.force_login(user)

    def check_acts(self) -> None:
        """Try all acts of operators: none is offered, and none is done."""
        before = self.operator.page("admin_logentry_changelist").text
        for model in LISTS:
            answer = self.browser.get(page_of(model))
            assert answer.status_code == 200, model
            assert not list(read(answer.content.decode()).all("select", name="action")), model
            for action in self._actions(model):
                form = {"action": action, "_selected_action": self._numbers(model), "post": "yes"}
                self.browser.post(page_of(model), form, follow=True)
        for where in self._forms():
            answer = self.browser.get(where)
            shown = forms(read(answer.content.decode()), where)
            assert not [f for f in shown if f.values.keys() - {"csrfmiddlewaretoken"}], where
            assert self.browser.post(where, {"units": "1", "total": "1"}).status_code == 403, where
        assert self.operator.page("admin_logentry_changelist").text == before

    def check_searches(self) -> None:
        """Look for the latest of each list by all that it can be found by."""
        for model, fields in FOUND_BY.items():
            rows = apps.get_model(model.replace("_", ".")).objects.order_by("-pk")
            for field in fields:
                latest = rows.exclude(**{field: ""} if field == "number" else {}).first()
                if latest is None:
                    continue
                [value, *_] = rows.filter(pk=latest.pk).values_list(field, flat=True)
                answer = self.browser.get(page_of(model), {"q": str(value)})
                [table] = read(answer.content.decode()).all("table", id="result_list")
                paths = [a.attributes["href"] for a in table.all("a")]
                assert [p for p in paths if f"/{latest.pk}/change/" in p], (model, field, value)

    def _actions(self, model: str) -> list[str]:
        page = self.operator.page(f"{model}_changelist")
        options = [o for s in page.all("select", name="action") for o in s.all("option")]
        return [name for o in options if (name := o.attributes["value"])]

    def _numbers(self, model: str) -> list[str]:
        rows = self.world.rows.values()
        numbers = {
            "shop_sale": [row.pk for row in rows],
            "shop_product": [row.product_id for row in rows],
            "inventory_item": [row.item_id for row in rows],
            "shop_order": list(self.world.orders.values()),
            "shop_refund": [row.pk for row in self.operator.refunds().values()],
            "inventory_outboxmessage": [row.pk for row in OutboxMessage.objects.all()],
        }
        return [str(number) for number in numbers[model]]

    def _forms(self) -> Iterator[str]:
        for row in self.world.rows.values():
            yield reverse("admin:shop_sale_change", args=[row.pk])
            yield reverse("admin:shop_product_change", args=[row.product_id])
            yield reverse("admin:inventory_item_restock", args=[row.item_id])
