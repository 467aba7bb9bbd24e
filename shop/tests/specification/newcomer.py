"""A newcomer signs up on the way to a sale, guesses the password, and chooses another by mail."""

from __future__ import annotations

import re
from smtplib import SMTPRecipientsRefused, SMTPResponseException
from typing import Any
from unittest import mock
from uuid import uuid4

from django.conf import settings
from django.core import mail
from django.core.mail.backends.locmem import EmailBackend
from django.test import Client

from inventory.models import OutboxMessage
from inventory.redis import client
from shop.accounts import throttle, tokens
from shop.accounts.models import User
from shop.background import tasks
from shop.catalogue.sales import database_time
from shop.mails.sending import RESET
from shop.specification.order import Sale
from shop.tests.specification.page import forms, read
from shop.tests.specification.people import Person
from shop.tests.specification.world import World

FIRST, SECOND = "the first long passphrase", "another long passphrase"


class Newcomer(Person):
    """Eve, who has no account yet."""

    def __init__(self, world: World) -> None:
        super().__init__("Eve", browser=Client(enforce_csrf_checks=True))
        self._world = world
        self._login = f"eve-{uuid4().hex[:8]}"

    def arrive(self, sale: Sale) -> None:
        """Sign up on the way to a sale, and sign in by another program."""
        home = f"/sales/{self._world.rows[sale].pk}/"
        where = f"/sign-in/?next={home}"
        for other in ("/sign-up/", "/sign-in/", "/sign-up/"):  # by the pages' links
            links = [a.attributes["href"] for a in self.visit(where).one("main").all("a")]
            [where] = [link for link in links if link.startswith(other)]
        taken = self._world.people["Ann"].buyer.user.username
        for name, password, again in (
            (taken, FIRST, FIRST),
            (self._login, "12345", "12345"),
            (self._login, FIRST, SECOND),
        ):
            answer = self._sign_up(where, name, password, again)
            [kept] = forms(read(answer.content.decode()), where)
            assert kept.values["username"] == name
            assert not User.objects.filter(username=self._login).exists()
        typed = {"password1": FIRST, "password2": FIRST}
        assert self.browser.post("/sign-up/", kept.values | typed).headers["Location"] == home
        assert self._may_buy(self._takes_token())
        assert self._may_buy(self._asks_token(FIRST).json()["token"])

    def _sign_up(self, where: str, name: str, password: str, again: str) -> Any:
        typed = {"username": name, "password1": password, "password2": again}
        typed["email"] = f"{self._login}@example.org"
        return self._sends(self.browser, where, typed)

    def forget_password(self) -> None:
        """Guess until nobody listens, and choose another password by the link of a mail."""
        old = self._takes_token()
        guesses = [self._asks_token("a guess").status_code for _ in range(throttle.ATTEMPTS)]
        assert [*guesses, self._asks_token(FIRST).status_code] == [401] * (len(guesses) - 1) + [
            429,  # which the last one is told too
            429,
        ]
        redis: Any = client()
        redis.expire(throttle._key(self._login), 60)  # four minutes go by
        elsewhere = Client(enforce_csrf_checks=True)
        assert self._signs_in(elsewhere, FIRST).status_code == 200
        assert redis.ttl(throttle._key(self._login)) <= 60, "who goes on guessing prolongs it"
        link = self._link()
        forged = re.sub(r"-\w+/$", f"-{'0' * 32}/", link)
        assert not forms(read(elsewhere.get(forged).content.decode()), forged)
        choose = elsewhere.get(link).headers["Location"]  # which hides the link's secret
        for password, again in ((SECOND, FIRST), ("12345", "12345"), (SECOND, SECOND)):
            typed = {"new_password1": password, "new_password2": again}
            answer = self._sends(elsewhere, choose, typed)
        assert answer.headers["Location"] == "/password-reset/done/"
        assert not forms(read(elsewhere.get(link).content.decode()), link)
        assert self.browser.get("/orders/").status_code == 302, "the old session goes on"
        tokens.generations.cache_clear()  # which a process learns within seconds
        assert not self._may_buy(old)
        assert self._asks_token(FIRST).status_code == 401
        assert self._signs_in(self.browser, SECOND).headers["Location"] == "/"
        assert self._may_buy(self._takes_token())
        assert self._may_buy(self._asks_token(SECOND).json()["token"])
        self._sends(self.browser, "/", {}, inside="header", action="/sign-out/")
        assert self.browser.get("/account/").status_code == 302

    def _link(self) -> str:
        """Ask for a mail, which its server puts off twice; return its link."""
        address = f"{self._login}@example.org"
        mail.outbox = []
        self._sends(self.browser, "/password-reset/", {"email": address.upper()})
        for later in (SMTPResponseException(451, b"later"), SMTPRecipientsRefused({})):
            assert mail.outbox == []  # the page has waited for no mail server
            with mock.patch.object(EmailBackend, "send_messages", side_effect=later):
                tasks.send_mails()
            OutboxMessage.objects.filter(topic=RESET).update(not_before=database_time())
        tasks.send_mails()
        [sent] = mail.outbox
        assert (sent.to, sent.subject) == ([address], "Choose a new password / 设置新密码")
        links: list[str] = re.findall(rf"{settings.PUBLIC_URL}(\S+)", str(sent.body))
        [link] = links
        return link

    def _signs_in(self, browser: Client, password: str) -> Any:
        typed = {"username": self._login, "password": password}
        return self._sends(browser, "/sign-in/", typed)

    def _asks_token(self, password: str) -> Any:
        typed = {"username": self._login, "password": password}
        return Client().post("/api/v1/tokens", typed, content_type="application/json")

    def _takes_token(self) -> str:
        """Return the token that the account's page makes."""
        answer = self._sends(self.browser, "/account/", {})
        return read(answer.content.decode()).one("input", id="token").attributes["value"]

    def _may_buy(self, token: str) -> bool:
        bearer = {"Authorization": f"Bearer {token}"}
        answer = Client().get(f"/api/v1/orders/{10**9}", headers=bearer)
        assert answer.status_code in (401, 404)
        return answer.status_code == 404

    def _sends(
        self,
        browser: Client,
        where: str,
        typed: dict[str, str],
        *,
        inside: str = "main",
        action: str = "",
    ) -> Any:
        """Send the form of a page, filled in."""
        part = read(browser.get(where).content.decode()).one(inside)
        [form] = [form for form in forms(part, where) if action in form.action]
        return browser.post(form.action, form.values | typed)
