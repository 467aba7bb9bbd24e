"""The final read of a proof: the database, the provider, and the mails."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from django.db import Error

from lab.proof import deliveries, provider_ledger, snapshot
from loadtest.steps import RunFiles
from shop.orders.models import Order
from shop.payments.provider import PaymentUnknown

log = logging.getLogger(__name__)


def read(sales: Sequence[int], files: RunFiles) -> str:
    """Write the final state of these sales: why it could not be read; empty if it was."""
    try:
        snapshot.write(files.final, sales)
    except Error as error:
        files.final.unlink(missing_ok=True)
        return f"no final read: {error}"
    _write_ledger(sales, files)
    _write_deliveries(sales, files)
    return ""


def _write_ledger(sales: Sequence[int], files: RunFiles) -> None:
    """Write what the payment provider moved, or nothing if it does not say: P11 is then unknown."""
    orders = Order.objects.filter(lines__sale__in=sales).values_list("pk", flat=True)
    try:
        provider_ledger.write(files.ledger, set(orders))
    except PaymentUnknown as error:
        files.ledger.unlink(missing_ok=True)
        log.warning("%s", error)


def _write_deliveries(sales: Sequence[int], files: RunFiles) -> None:
    """Write which mails were delivered, or nothing if they go elsewhere: P19 is then unknown."""
    try:
        deliveries.write(files.deliveries, sales)
    except (deliveries.NoMailServer, Error) as error:
        files.deliveries.unlink(missing_ok=True)
        log.warning("%s", error)
