"""A form that is sent twice at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

from django.db import connection
from django.test import Client

from shop.catalogue.models import Sale
from shop.checkout import buy
from shop.tests.catalogue import a_buyer


def purchases(sale: Sale, number: int) -> list[Callable[[], object]]:
    """Return purchases of one unit each, by different buyers."""

    def purchase(buyer: int) -> Callable[[], object]:
        return lambda: buy(sale.pk, buyer, uuid4(), 1)

    return [purchase(a_buyer().pk) for _ in range(number)]


def post_twice(
    client: Client,
    path: str,
    form: dict[str, Any],
    meanwhile: Sequence[Callable[[], object]] = (),
) -> list[int]:
    """Post a form in two threads as the same user, and do other things at the same time.

    Returns:
        The statuses of both answers, sorted.
    """

    def send() -> int:
        browser = Client()
        browser.cookies = client.cookies
        return browser.post(path, form).status_code

    def run(step: Callable[[], Any]) -> Any:
        try:
            return step()
        finally:
            connection.close()

    with ThreadPoolExecutor(2 + len(meanwhile)) as pool:
        sent = [pool.submit(run, send) for _ in range(2)]
        for done in [pool.submit(run, step) for step in meanwhile]:
            done.result()
        return sorted(response.result() for response in sent)
