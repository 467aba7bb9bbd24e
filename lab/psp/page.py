"""The provider's page: what was paid lately, and how the provider misbehaves. In the demo only."""

from __future__ import annotations

import time
from html import escape
from pathlib import Path
from string import Template
from urllib.parse import urlsplit

from babel.numbers import format_currency, get_currency_precision
from msgspec.structs import asdict

from lab.psp.behaviour import Behaviour
from lab.psp.books import Books

LATEST = 50
"""Payments shown."""

TEMPLATE = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))


def page(books: Books) -> str:
    """Return the page: the totals and the latest payments."""
    sums, states = books.totals()
    payments = {row["status"]: row["payments"] for row in states}
    shown = {"Payments": str(sum(payments.values()))}
    for row in sums:
        currency = row["currency"]
        shown[f"Captured, {currency}"] = _money(row["captured"], currency)
        shown[f"Refunded, {currency}"] = _money(row["refunded"], currency)
    waiting = payments.get("requires_capture", 0) + payments.get("processing", 0)
    shown["Being decided"] = str(waiting)
    shown["Declined"] = str(payments.get("failed", 0))
    return TEMPLATE.substitute(
        stage=_stage(books.behaviour.webhook_url),
        totals="".join(f"<div><dt>{k}</dt><dd>{v}</dd></div>" for k, v in shown.items()),
        faults=_faults(books.behaviour),
        latest=_latest(books)
        or '<tr><td colspan="5">None yet. Pay an order in the shop.</td></tr>',
    )


def _stage(webhooks: str) -> str:
    """Link to the stage of the demo's shop, which gets the webhooks."""
    shop = urlsplit(webhooks)
    if not shop.netloc:
        return ""
    stage = escape(f"{shop.scheme}://{shop.netloc}/stage/")
    return f'<p><a href="{stage}">Back to the stage</a></p>'


def _faults(now: Behaviour) -> str:
    ordinary = asdict(Behaviour(webhook_url=now.webhook_url, seed=now.seed))
    faults = [f"{name} {value}" for name, value in asdict(now).items() if value != ordinary[name]]
    return ", ".join(f"<strong>{fault}</strong>" for fault in faults) or "no faults"


def _latest(books: Books) -> str:
    rows = []
    for row in books.latest(LATEST):
        created = time.strftime("%H:%M:%S", time.gmtime(row["created"]))
        status = row["status"].replace("_", " ").capitalize()
        amount = _money(row["amount"], row["currency"])
        refunded = _money(row["refunded"], row["currency"]) if row["refunded"] else ""
        money = "".join(f'<td class="number">{each}</td>' for each in (amount, refunded))
        rows.append(f"<tr><td>{created}</td><td>{row['order']}</td><td>{status}</td>{money}</tr>")
    return "\n".join(rows)


def _money(amount: int, currency: str) -> str:
    return format_currency(amount / 10 ** get_currency_precision(currency), currency, locale="en")
