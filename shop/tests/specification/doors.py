"""The doors that buyers come through: the API and the pages, judged by the model."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from shop.specification.order import Order, Part, Refused, Sale
from shop.tests.specification import shown, words
from shop.tests.specification.page import Form, forms, read
from shop.tests.specification.people import Person, Tab
from shop.tests.specification.translations import BOUGHT_OR_NOT, FEWER_LEFT
from shop.tests.specification.world import Crash, World, key_of, status_of

FIGURES = ("available", "left", "may_come_back")
UNKNOWN = Refused("outcome_unknown")
CHANGES = {"payment": "pay", "cancel": "cancel", "refund": "refund"}
WHOLE: tuple[Any, ...] = (None, {}, {"all": True})
"""Bodies of calls that cancel or return a whole order."""


def asked(act: Callable[[], Any]) -> Any:
    """Return what the model says, also if it refuses."""
    try:
        return act()
    except Refused as refused:
        return refused


def codes_of(expected: object) -> list[str]:
    """Return the codes of a refusal that the model allows; none if it is none."""
    if not isinstance(expected, Refused):
        return []
    return [expected.code, *codes_of(expected.or_else)]


class Doors:
    """Acts of buyers, each through one door."""

    def __init__(self, world: World) -> None:
        self.world, self.model = world, world.model

    # --- the API ----------------------------------------------------------------------------

    def refused(self, person: Person, expected: Refused, answer: Any, *, cart: bool) -> None:
        """Compare a refusal of the API."""
        said, status = answer.json(), answer.status_code
        code = said.get("code", f"none: it was answered {status}")
        also = expected.or_else
        expected = also if also and also.code == code else expected
        assert code == expected.code
        assert status == said["status"] == status_of(code)
        assert ("Retry-After" in answer.headers) == (status in (429, 503))
        assert answer.headers["Content-Type"] == "application/problem+json"
        if code in words.REFUSED and code not in ("idempotency_key_reused", "outcome_unknown"):
            assert said["title"] == person.says(words.REFUSED[code])
        about = expected.about if cart else None
        assert said.get("sale") == (about and self.world.rows[about].pk)
        for name in FIGURES:
            assert said.get(name, 0) == expected.figures.get(name, 0), name
        if said.get("may_come_back"):
            assert said["detail"] == person.says(words.UNPAID)

    def buy_by_api(
        self,
        person: Person,
        key: int,
        wanted: Mapping[Sale, int],
        *,
        cart: bool,
        expected: Refused | None = None,
    ) -> None:
        """Buy by a call, which is refused if one is `expected`; it may be done all the same."""
        lines = [{"sale": self.world.rows[s].pk, "quantity": n} for s, n in wanted.items()]
        path = "orders"
        body: Any = {"lines": lines}
        if not cart:
            path, body = f"sales/{lines[0]['sale']}/orders", {"quantity": lines[0]["quantity"]}
        try:
            sent = {"idempotency_key": key_of(key), "accept_language": person.language}
            answer = person.buyer.call("POST", path, body, **sent)
        except Crash:
            return self._learn(person, key_of(key), wanted, cart=cart)
        if expected:
            self._learn(person, key_of(key), wanted, cart=cart)
            return self.refused(person, expected, answer, cart=cart)
        said = asked(lambda: self.model.buy(person.name, key_of(key), wanted, cart=cart))
        if isinstance(said, Refused):
            return self.refused(person, said, answer, cart=cart)
        order, replayed = said
        assert answer.status_code == (200 if replayed else 201), answer.content
        self.world.learn(order, answer.json()["id"])
        return self.same_document(order, answer.json())

    def _learn(self, person: Person, key: str, wanted: Mapping[Sale, int], *, cart: bool) -> None:
        """Let the model do what was done: all of it, or nothing."""
        from shop.orders.models import Order as Row

        known = [self.world.orders[order] for order in self.model.of(person.name)]
        new = Row.objects.filter(buyer=person.buyer.user).exclude(pk__in=known)
        if (row := new.first()) is not None:
            order, _ = self.model.buy(person.name, key, wanted, cart=cart)
            self.world.learn(order, row.pk)

    def same_document(self, order: Order, said: dict[str, Any]) -> None:
        """Compare an order as the API shows it."""
        from shop.orders.models import Order as Row

        for detail in Row.DETAILS:  # a team's own, which the specification does not know
            said.pop(detail)
        deadline, created = said.pop("pay_before"), said.pop("created")
        assert self.world.second(deadline) == order.pay_before
        assert self.world.second(created) <= self.model.now
        assert said == self.world.document(order)

    def look_by_api(self, person: Person, order: Order) -> None:
        """Look at an order by a call; another's is not found."""
        answer = person.buyer.get(f"orders/{self.world.orders[order]}")
        if order.buyer != person.name:
            assert answer.json()["code"] == "not_found"
        else:
            self.same_document(order, answer.json())

    def look_at_sale(self, person: Person, sale: Sale) -> None:
        """Look at a sale by a call, for which nobody needs an account."""
        row, now = self.world.rows[sale], self.model.now
        said = person.buyer.get(f"sales/{row.pk}", authorization="").json()
        times = [self.world.second(said.pop(f"{n}_at")) for n in ("starts", "ends")]
        assert times == [sale.opens, sale.closes]
        assert self.world.second(said.pop("server_time")) == now
        status = self.model.status(sale)
        assert said == {
            "id": row.pk,
            "item": row.item_id,
            "limit": sale.limit,
            "status": status,
            "price": {"amount": sale.price, "currency": sale.currency},
            "available": self.model.available(sale),
            "may_come_back": status == "sold_out" and self.model.may_come_back(sale),
        }

    def change_by_api(self, person: Person, order: Order, what: str, part: Part | None) -> None:
        """Pay, cancel or return by a call."""
        body = None if what == "payment" else WHOLE[self.world.orders[order] % len(WHOLE)]
        sent = {"accept_language": person.language}
        if part is not None:
            body = {"quantity": part.units}
            if part.sale is not None:
                body["sale"] = self.world.rows[part.sale].pk
            sent["idempotency_key"] = str(part.key)
        path = f"orders/{self.world.orders[order]}/{what}"
        try:
            answer = person.buyer.call("POST", path, body, **sent)
        except Crash:
            asked(lambda: self._change(person, order, what, part))
            return
        expected = asked(lambda: self._change(person, order, what, part))
        if isinstance(expected, Refused):
            self.refused(person, expected, answer, cart=False)
        else:
            assert answer.status_code == 200, answer.content
            self.same_document(order, answer.json())

    def _change(self, person: Person, order: Order, what: str, part: Part | None) -> None:
        if order.buyer != person.name:
            raise Refused("not_found")
        if what == "payment":
            self.model.pay(order)
        elif what == "refund":
            self.model.refund(order, part)
        else:
            order.cancel(part)

    # --- the pages --------------------------------------------------------------------------

    def send(
        self,
        person: Person,
        tab: Tab,
        form: Form,
        units: int | None,
        *,
        unknown: bool = False,
    ) -> str:
        """Send a form of a page that may be an old one; return what it was.

        If its outcome is `unknown`, the model does what was done: all of it, or nothing.
        """
        self.world.forget()
        values = dict(form.values)
        if units is not None:
            values |= {name: str(units) for name in values if name.endswith("quantity")}
        try:
            answer = person.browser.post(form.action, values)
        except Crash:
            answer = None
        if tab.session != person.session:
            assert answer is not None
            assert answer.status_code == 403, "the form of an earlier session was taken"
            assert person.says("The form has expired") in answer.content.decode()
            return "a form of before, in vain"
        kind, _, number = form.action.strip("/").partition("/")
        if kind == "sales":
            return self._bought(person, answer, int(number), values, unknown=unknown)
        if kind == "cart" and number:
            return self._put_into_cart(person, answer, int(number), int(values["quantity"]))
        if kind == "cart":
            return self._checked_out(person, answer, values, unknown=unknown)
        return self._changed(person, tab, answer, form.action, values)

    def send_in_vain(self, person: Person, where: str, status: int) -> None:
        """Send a page's form to buy, which must be refused."""
        found = [form for form in forms(person.visit(where), where) if form.action == where]
        for form in found[-1:]:
            answer = person.browser.post(form.action, form.values)
            assert (answer.status_code, "Retry-After" in answer.headers) == (status, status == 429)

    def visit_in_vain(self, person: Person, order: Order) -> None:
        """Look at another's order and send its forms: a visitor is to sign in, others find none."""
        where = f"/orders/{self.world.orders[order]}/"
        answers = [person.browser.get(where)]
        if person.visits_only:
            answers += [person.browser.get(path) for path in ("/orders/", "/account/")]
        token = person.browser.cookies["csrftoken"].value if self._has_token(person) else ""
        for what in CHANGES:
            sent = {"csrfmiddlewaretoken": token}
            answers.append(person.browser.post(f"{where}{what}/", sent))
        for answer in answers:
            if person.visits_only:
                asked = answer.request["PATH_INFO"]
                # A form's address takes no GET.
                back = where if asked.startswith(where) else asked
                assert answer.headers["Location"] == f"/sign-in/?next={back}", answer.status_code
            else:
                assert answer.status_code == 404, answer.status_code

    def _has_token(self, person: Person) -> bool:
        person.visit("/")
        return "csrftoken" in person.browser.cookies

    def _sale(self, number: int) -> Sale:
        [sale] = [sale for sale, row in self.world.rows.items() if row.pk == number]
        return sale

    def _bought(
        self, person: Person, answer: Any, number: int, values: dict[str, str], *, unknown: bool
    ) -> str:
        sale, units, key = self._sale(number), int(values["quantity"]), values["key"]
        expected: Any = UNKNOWN
        if unknown:
            self._learn(person, key, {sale: units}, cart=False)
        else:
            expected = asked(lambda: self.model.buy(person.name, key, {sale: units}))
        if isinstance(expected, Refused):
            again = self._refused_page(person, answer, expected)
            [kept, *_] = forms(again, "")
            reused = expected.code == "idempotency_key_reused"
            assert (kept.values["key"] == key) != reused
            if sale.limit > 1:
                assert kept.values["quantity"] == str(units if 1 <= units <= 1000 else 1)
        else:
            self._led_to_order(answer, expected[0])
        return f"{units} of {sale.name}"

    def _refused_page(self, person: Person, answer: Any, expected: Refused) -> Any:
        page = read(answer.content.decode())
        codes = codes_of(expected)
        assert answer.status_code in {status_of(code) for code in codes}, answer.status_code
        texts = [person.says(words.REFUSED[code]) for code in codes]
        if expected.figures.get("may_come_back"):
            texts = [person.says(words.MAY_COME_BACK)]
        if left := expected.figures.get("left"):
            texts[0] = person.says(FEWER_LEFT, left)
        if expected is UNKNOWN:
            texts = [person.says(BOUGHT_OR_NOT)]
        notice = page.one("p", css="notice").text
        assert any(map(notice.startswith, texts)), notice
        return page

    def _led_to_order(self, answer: Any, order: Order) -> None:
        found = re.fullmatch(r"/orders/(\d+)/", answer.headers.get("Location", ""))
        assert found, (answer.status_code, answer.content[:200])
        self.world.learn(order, int(found[1]))

    def _put_into_cart(self, person: Person, answer: Any, number: int, units: int) -> str:
        sale = self._sale(number)
        expected = asked(lambda: self.model.put_into_cart(person.name, sale, units))
        assert answer.headers["Location"] == "/cart/"
        self._notice(person, person.visit("/cart/"), expected)
        shown.check_cart(person, self.world)
        return f"{units} of {sale.name} into the cart"

    def _notice(self, person: Person, page: Any, expected: object) -> None:
        codes = codes_of(expected)
        notices = [p.text for p in page.all("p", css="error")]
        assert len(notices) == bool(codes), notices
        for notice in notices:
            assert notice in [person.says(words.REFUSED[code]) for code in codes]

    def _checked_out(
        self, person: Person, answer: Any, values: dict[str, str], *, unknown: bool
    ) -> str:
        expected: Any = UNKNOWN
        if unknown:
            self._learn(person, values["key"], self.model.carts[person.name], cart=True)
        else:
            sent = {
                self._sale(int(name.removesuffix("-quantity"))): int(units)
                for name, units in values.items()
                if name.endswith("-quantity")
            }
            key = None if "update" in values else values["key"]
            expected = asked(lambda: self.model.check_out(person.name, key, sent))
        if expected is None or codes_of(expected) == ["invalid_quantity"]:
            assert answer.headers["Location"] == "/cart/"
            page = person.visit("/cart/")
            self._notice(person, page, expected)
            shown.check_cart(person, self.world, page)
        elif isinstance(expected, Refused):
            page = self._refused_page(person, answer, expected)
            kept = {form.values["key"] for form in forms(page, "") if "key" in form.values}
            assert (kept == {values["key"]}) != (expected.code == "idempotency_key_reused")
            refused = [tr.attributes["data-line"] for tr in page.all("tr", css="refused")]
            about = expected.about
            assert refused == ([str(self.world.rows[about].pk)] if about else [])
            named = [strong.text for strong in page.one("p", css="notice").all("strong")]
            assert named == ([person.says(about.name)] if about else [])
            shown.check_cart(person, self.world, page)
        else:
            self._led_to_order(answer, expected)
            shown.check_cart(person, self.world)
        return "the cart"

    def _changed(
        self, person: Person, tab: Tab, answer: Any, action: str, values: dict[str, str]
    ) -> str:
        order, what = tab.order, action.strip("/").split("/")[-1]
        assert order is not None
        part = None
        if "quantity" in values:
            part = Part(int(values["quantity"]), values["key"], self._sale(int(values["sale"])))
        if part is not None and part.units < 1:
            expected: object = Refused("invalid_quantity")
        else:
            expected = asked(lambda: self._change(person, order, what, part))
        if answer is not None:
            assert answer.headers["Location"] == f"/orders/{self.world.orders[order]}/"
            self._notice(person, shown.check_order_page(person, order, self.world), expected)
        some = f"{part.units} of {part.sale.name} of " if part and part.sale else ""
        return f"{what} of {some}order {self.model.orders.index(order) + 1}"
