"""What each kind of request has to itself, so that none of them lets another one wait.

A crowd could use up two things: the database connections of its process, and the process's time.
Purchases, changes of orders, readers and operators each borrow from a part of the connections of
their own (`Share` in `inventory/postgresql/base.py`); a request that gets none in time is answered
503 before anything was written. And in a gevent worker, which runs one request at a time, readers
wait for their turns while purchases are under way (`serving/turns.py`).
"""

from __future__ import annotations

import re
from typing import Any

from inventory.postgresql.base import Share

PURCHASES = Share("purchases", 6 / 16)
"""A batch needs one connection, a cart another one."""

ORDERS = Share("orders", 2 / 16, patience=2.0)
"""Changes of orders: paid, cancelled, returned. Not held while the payment provider is asked. Two
at once, so that a crowd of them leaves purchases their turns in the worker's loop: with four,
purchases waited half as long again. They wait longer than others for their connections, so that a
crowd is served rather than sent away to come again."""

SETTLEMENTS = Share("settlements", 2 / 16)
"""Changes of orders that have asked the payment provider. A crowd that has not begun must not let
them wait: their money may have moved already."""

READERS = Share("readers", 4 / 16)
"""Everything else that visitors do, such as pages and signing in."""

OPERATORS = Share("operators", 2 / 16)
"""The admin, health checks, and the calls for load tests."""

SHARES = (PURCHASES, ORDERS, SETTLEMENTS, READERS, OPERATORS)

_OPERATORS_PAGES = re.compile(r"/admin/|/(?:health|live|ready)z$")
_PURCHASES_FORMS = re.compile(r"/(?:sales/\d+(?:/draw)?|cart)/$")
_ORDERS_FORMS = re.compile(r"/orders/")


turns: Any = None
"""The turns of this process's requests (`serving/turns.py`), which `gunicorn.conf.py` sets."""


def of_page(environ: dict[str, Any]) -> Share:
    """Return the share of a request for a page."""
    path = environ["PATH_INFO"]
    if _OPERATORS_PAGES.match(path):
        return OPERATORS
    if environ["REQUEST_METHOD"] == "POST":
        if _PURCHASES_FORMS.match(path):
            return PURCHASES
        if _ORDERS_FORMS.match(path):
            return ORDERS
    return READERS
