"""Environment variables of a development machine, besides the shop's own."""

from __future__ import annotations

from shop.environment import PROJECT, Variable, declare, is_set, switch, text

PSP_PORT = 8790
"""Where the fake payment provider listens, if that port is free."""

VARIABLES = declare(
    Variable(
        "SHOP_DATA", ".data", "folder for the embedded servers' data, secrets, logs and mails"
    ),
    Variable("PSP_WEBHOOK_URL", "", "fake payment provider: the shop's address for webhooks"),
    Variable(
        "PSP_PUBLIC_URL", "", "fake payment provider: its address for browsers; unset: `PSP_URL`"
    ),
    Variable("PSP_DATABASE", "", "fake payment provider: its SQLite file; unset: in memory"),
    Variable(
        "PSP_BEHAVIOUR", "", "fake payment provider: how it behaves, as JSON (docs/payments.md)"
    ),
)

__all__ = ["PROJECT", "PSP_PORT", "VARIABLES", "is_set", "switch", "text"]
