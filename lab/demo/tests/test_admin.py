"""The demo's pages in the admin: charts of the stock, and the runs of tasks."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from lab.demo import task_log
from lab.models import Run
from shop.accounts.models import User
from shop.background import tasks
from shop.tests.catalogue import a_sale, an_order

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_list_of_sales_draws_their_stock_by_one_query(client: Client) -> None:
    client.force_login(User.objects.create_superuser("root"))
    for units in (3, 5):
        an_order(a_sale(stock=units))
    with CaptureQueriesContext(connection) as queries:
        page = client.get(reverse("admin:shop_sale_changelist")).content.decode()
    assert len([each for each in queries if "sum(delta)" in each["sql"]]) == 1
    for text in ("2 of 3", "4 of 5"):
        assert text in page
    charts = re.findall(r'<polyline points="([^"]+)"', page)
    # The top is all units, at 1; the bottom is none, at 19.
    last = {float(chart.split()[-1].split(",")[1]) for chart in charts}
    assert last == {1 + 18 / 3, 1 + round(18 / 5, 1)}


def test_a_task_that_has_run_is_noted() -> None:
    an_order(a_sale())
    tasks.follow_up.apply()
    run = Run.objects.get(task="shop.follow_up")
    assert (run.runs, run.result, run.failures) == (1, "1", 0)


def test_a_failed_run_is_noted_with_its_error_and_the_next_keeps_it(admin_client: Client) -> None:
    task_log.note("shop.example", 0.1, error="ValueError: no")
    task_log.note("shop.example", 0.2, result="3")
    run = Run.objects.get()
    assert (run.runs, run.failures, run.result, run.error) == (2, 1, "3", "ValueError: no")
    assert run.last_failure is not None
    assert (
        "ValueError: no" in admin_client.get(reverse("admin:lab_run_changelist")).content.decode()
    )
