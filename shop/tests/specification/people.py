"""Who buys in a story: buyers with a token and a browser, and the pages that they still show."""

from __future__ import annotations

from dataclasses import dataclass, field

from django.test import Client

from shop.conftest import Buyer
from shop.specification.order import Order
from shop.tests.specification import words
from shop.tests.specification.page import Node, read


@dataclass
class Tab:
    """A page that a browser still shows."""

    where: str
    page: Node
    session: int
    order: Order | None = None


@dataclass(eq=False)
class Person:
    """A buyer with a token, a browser, and the pages that it still shows."""

    name: str
    api: Buyer | None = None
    browser: Client = field(default_factory=lambda: Client(enforce_csrf_checks=True))
    tabs: list[Tab] = field(default_factory=list)
    session: int = 0
    chinese: bool = False

    @property
    def buyer(self) -> Buyer:
        """Return who the API knows."""
        assert self.api is not None, "a visitor has no account"
        return self.api

    @property
    def visits_only(self) -> bool:
        """Tell whether this is a visitor without an account."""
        return self.api is None

    def sign_in(self) -> None:
        """Sign in; what older pages carry to prove where they come from is no longer valid."""
        self.browser.force_login(self.buyer.user)
        self.session += 1

    def read_in(self, *, chinese: bool) -> None:
        """Choose the language by the form of a page."""
        form = {"language": "zh-hans" if chinese else "en", "next": "/orders/"}
        self.browser.get("/")  # which gives the form its token
        form["csrfmiddlewaretoken"] = self.browser.cookies["csrftoken"].value
        answer = self.browser.post("/language/", form)
        assert answer.headers["Location"] == "/orders/", answer.status_code
        self.chinese = chinese

    @property
    def language(self) -> str:
        """Return what this person's programs say that they accept."""
        return "zh-CN,zh;q=0.9" if self.chinese else "en"

    def says(self, text: str, *figures: object) -> str:
        """Return a text in the language that this person reads."""
        return words.said(text, *figures, chinese=self.chinese)

    def money(self, amount: int, currency: str) -> str:
        """Return an amount as this person reads it."""
        return words.money(amount, currency, chinese=self.chinese)

    def visit(self, where: str, order: Order | None = None) -> Node:
        """Open a page, which stays in a tab."""
        answer = self.browser.get(where)
        assert answer.status_code == 200, (where, answer.status_code, answer.headers)
        assert "no-store" in answer.headers["Cache-Control"]
        assert answer.headers["Content-Language"] == ("zh-hans" if self.chinese else "en")
        page = read(answer.content.decode())
        self.tabs = [*self.tabs[-5:], Tab(where, page, self.session, order)]
        return page
