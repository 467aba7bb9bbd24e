"""Mails through a server that is slow to answer: it takes each of them once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from email.parser import BytesParser
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP
from django.db import connection
from django.test import Client

from development.ports import next_free
from inventory.models import OutboxMessage
from lab.mail_server import Keeper
from shop.accounts.models import User
from shop.background import follow_up
from shop.identity import identity
from shop.tests.catalogue import a_sale, an_order

pytestmark = pytest.mark.django_db(transaction=True)

TIMEOUT = 3
"""Seconds that the shop waits for an answer."""

PAUSE = 0.5
"""Seconds before an answer that is slow but in time, also on a busy machine."""

IDLE = "2s"
"""How long PostgreSQL lets a transaction be idle: less than the answers to a mail take together."""

TAKEN, BYE, EVERY = "250 Kept", "221", ""
"""Beginnings of the server's answers."""


class SlowServer(SMTP):
    """Waits before some of its answers."""

    pauses: dict[str, float] = {}

    async def push(self, status: Any) -> None:
        for answer, pause in self.pauses.items():
            if str(status).startswith(answer):
                await asyncio.sleep(pause)
        await super().push(status)


class MailServer(Controller):
    """A mail server that keeps what it takes."""

    def __init__(self, folder: Path) -> None:
        super().__init__(Keeper(folder), "127.0.0.1", next_free(18_400))
        self.folder = folder

    def factory(self) -> SMTP:
        return SlowServer(self.handler, hostname="localhost", enable_SMTPUTF8=True)

    def taken(self, header: str) -> list[str]:
        """Return this header of all mails that it took."""
        mails = [BytesParser().parsebytes(path.read_bytes()) for path in self.folder.glob("*.eml")]
        return [mail[header] for mail in mails]


@pytest.fixture
def server(tmp_path: Path, settings: Any) -> Iterator[MailServer]:
    server = MailServer(tmp_path)
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", server.port
    settings.EMAIL_TIMEOUT = TIMEOUT
    server.start()
    yield server
    server.stop()


@pytest.fixture
def eve() -> User:
    return User.objects.create_user("eve", "eve@example.org", "long enough 1")


def follow_up_again(times: int) -> None:
    """Let a worker do all that is due, whatever was put off."""
    for _ in range(times):
        with connection.cursor() as cursor:
            cursor.execute(f"SET idle_in_transaction_session_timeout = '{IDLE}'")
        try:
            follow_up.follow_up()
        finally:
            connection.close()
        OutboxMessage.objects.update(not_before="2020-01-01T00:00Z")


@pytest.mark.parametrize(
    "pauses",
    [{TAKEN: 2 * TIMEOUT}, {BYE: 2 * TIMEOUT}, {EVERY: PAUSE}],
    ids=["when it has the mail", "at the end", "always"],
)
def test_password_reset_is_mailed_once(
    pauses: dict[str, float], eve: User, server: MailServer
) -> None:
    Client().post("/password-reset/", {"email": eve.email})
    with patch.object(SlowServer, "pauses", pauses):
        follow_up_again(3)
    follow_up_again(2)
    assert server.taken("Delivered-To") == [eve.email]
    assert OutboxMessage.objects.get().done is not None


@pytest.mark.parametrize(
    "pauses", [{BYE: 2 * TIMEOUT}, {EVERY: PAUSE}], ids=["at the end", "always"]
)
def test_order_mail_is_sent_once(pauses: dict[str, float], server: MailServer) -> None:
    order = an_order(a_sale())
    with patch.object(SlowServer, "pauses", pauses):
        follow_up_again(3)
    follow_up_again(2)
    assert server.taken("Message-ID") == [f"<confirmation.{order.pk}@{identity()}.localhost>"]
