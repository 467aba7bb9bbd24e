"""Acts of buyers: by the API, and by pages that may be old."""

from __future__ import annotations

from collections.abc import Mapping

from django.test import override_settings
from hypothesis import strategies as st

from inventory.outcomes import OutcomeUnknown
from shop.checkout import limiter
from shop.specification.order import Part, Refused, Sale
from shop.tests.specification import rest, shown
from shop.tests.specification.acts import NUMBER, PEOPLE, SOME, Acts, act
from shop.tests.specification.doors import UNKNOWN
from shop.tests.specification.newcomer import Newcomer
from shop.tests.specification.odd import ask_oddly, buy_elsewhere, visit_oddly
from shop.tests.specification.page import Form, forms
from shop.tests.specification.people import Person, Tab
from shop.tests.specification.world import POINTS, Crash, failing, key_of

CALLS = {"payment": "pays", "cancel": "cancels", "refund": "returns"}
ODD = st.sampled_from([1] * 8 + [2] * 6 + [3, 4, 0, 1001])
TYPED = st.sampled_from([None, None, None, 1, 2, 3, 0, 1001])
TOO_MANY = Refused("rate_limited")


class BuyersActs(Acts):
    """What Ann and Bob do."""

    @act(3, who=PEOPLE, sale=NUMBER, units=ODD, again=st.booleans())
    def buys(self, who: str, sale: int, units: int, again: bool) -> str:
        """Buy in one sale; again means: with the key of the last purchase."""
        chosen = self.sales[sale % 3]
        return self._buy(who, {chosen: units}, again=again and sale > 8, cart=False)

    @act(3, who=PEOPLE, units=st.tuples(SOME, SOME, st.integers(0, 3)), again=st.booleans())
    def buys_a_cart(self, who: str, units: tuple[int, int, int], again: bool) -> str:
        """Buy several lines, all or nothing."""
        first, second, third = self.sales
        wanted = {first: units[0], second: units[1]}
        if units[2] > 1:
            wanted = {first: units[0], third: units[1]} if units[2] == 2 else {third: 1, **wanted}
        return self._buy(who, wanted, again=again and units[0] > 1, cart=True)

    @act(1, needs="a purchase", who=PEOPLE)
    def repeats_the_purchase(self, who: str) -> str:
        """Send the last purchase again: the same key, the same lines in another order."""
        if not self.keys[who]:
            return ""
        key, wanted, cart = self.keys[who][-1]
        wanted = dict(reversed(wanted.items()))
        self.doors.buy_by_api(self.world.people[who], key, wanted, cart=cart)
        return f"{who} sends the purchase again"

    @act(1, needs="a purchase", who=PEOPLE)
    def hurries(self, who: str) -> str:
        """Repeat the last purchase too often, where one a second is allowed and a spare one."""
        if not self.keys[who] or not set(self.keys[who][-1][1].values()) <= {1, 2, 3, 4}:
            return ""  # nonsense comes to no purchase, and so does not count
        for row in self.world.rows.values():
            form = self._form(self.world.people[who], f"/sales/{row.pk}/", f"/cart/{row.pk}/")
            if form and not self.model.carts.get(who):
                self.doors.send(self.world.people[who], self.world.people[who].tabs[-1], form, None)
        self.world.forget()
        person, (key, wanted, cart) = self.world.people[who], self.keys[who][-1]
        with override_settings(SHOP_RATE_LIMIT=1):
            limiter.cache_clear()
            for seconds, allowed in ((0, 2), (1, 1), (5, 2)):  # which are two at most
                self.world.pass_time(seconds)
                for _ in range(allowed):
                    self.quietly("repeats_the_purchase", who=who)
                self.doors.buy_by_api(person, key, wanted, cart=cart, expected=TOO_MANY)
                for where in ("/cart/", f"/sales/{self.world.rows[self.sales[0]].pk}/"):
                    self.doors.send_in_vain(person, where, 429)
        limiter.cache_clear()
        return f"{who} sends the purchase again and again in a hurry"

    def _can_buy(self, who: str, wanted: Mapping[Sale, int]) -> bool:
        model = self.model
        return all(
            model.status(sale) == "open"
            and units <= min(model.available(sale), model.left_for(who, sale))
            for sale, units in wanted.items()
        )

    @act(
        1,
        who=PEOPLE,
        sale=NUMBER,
        what=st.sampled_from(["pause", "end", "price"]),
        cart=st.booleans(),
    )
    def buys_just_after_a_change(self, who: str, sale: int, what: str, cart: bool) -> str:
        """Buy from a process that remembers the sale as it was before an operator changed it."""
        chosen = self.sales[sale % 3]
        if chosen.closed(self.model.now):
            return ""  # which may be the answer for another second
        if min(self.model.available(chosen), self.model.left_for(who, chosen)) < 2:
            return ""  # the second purchase is refused for two reasons, and either may be told
        said = self._buy(who, {chosen: 1}, again=False, cart=False)
        if what == "end":
            self.operator.edit(chosen, {"closes": max(self.model.now, chosen.opens + 1)})
        else:
            self.quietly("the_operator_changes", sale=sale, what=what, units=2)
        self._buy(who, {chosen: 1}, again=False, cart=cart)
        return f"{said}, and again in the second in which an operator changes it: {what}"

    def _buy(
        self,
        who: str,
        wanted: dict[Sale, int],
        *,
        again: bool,
        cart: bool,
        expected: Refused | None = None,
    ) -> str:
        known = self.keys[who][-1][1] if self.keys[who] else {}
        # A larger cart may be refused for its other lines before its key is looked at.
        again = again and bool(known) and (len(wanted) == 1 or len(known) > 1)
        # Buyers choose the same keys as others.
        key = self.keys[who][-1][0] if again else len(self.keys[who]) + 1
        if not again:
            self.keys[who].append((key, wanted, cart))
        what = " and ".join(f"{n} of {sale.name}" for sale, n in wanted.items())
        person = self.world.people[who]
        self.doors.buy_by_api(person, key, wanted, cart=cart, expected=expected)
        return f"{who} buys {what}{' under the last key' if again else ''}"

    @act(
        1,
        point=st.sampled_from(POINTS),
        who=PEOPLE,
        sale=NUMBER,
        units=SOME,
        cart=st.booleans(),
    )
    def the_process_ends_during_a_purchase(
        self, point: str, who: str, sale: int, units: int, cart: bool
    ) -> str:
        """End the process at a failpoint; the purchase was done or not, and a repeat tells."""
        with failing(point, Crash()):
            said = self._buy(who, {self.sales[sale % 3]: units}, again=False, cart=cart)
        return f"{said}, and the process ends {point}"

    @act(1, point=st.sampled_from(POINTS[1:]), who=PEOPLE, sale=NUMBER, cart=st.booleans())
    def gets_no_answer(self, point: str, who: str, sale: int, cart: bool) -> str:
        """Buy by the API and by pages, and hear that nobody knows; asking once more tells."""
        person, chosen = self.world.people[who], self.sales[sale % 3]
        if not self._can_buy(who, {chosen: 1}):
            return ""
        with failing(point, OutcomeUnknown("no answer")):
            said = self._buy(who, {chosen: 1}, again=False, cart=cart, expected=UNKNOWN)
        self.quietly("repeats_the_purchase", who=who)
        for where in ("/cart/", f"/sales/{self.world.rows[chosen].pk}/"):
            page = person.visit(where)
            wanted = self.model.carts.get(who, {}) if where == "/cart/" else {chosen: 1}
            for form in [form for form in forms(page, where) if form.action == where][-1:]:
                if self._can_buy(who, wanted):
                    with failing(point, OutcomeUnknown("no answer")):
                        self.doors.send(person, person.tabs[-1], form, None, unknown=True)
                    self.doors.send(person, person.tabs[-1], form, None)
        return f"{said}, also by pages, and nobody knows what came of it {point}"

    @act(
        6,
        needs="an order",
        order=NUMBER,
        what=st.sampled_from(["payment", "payment", "payment", "cancel", "refund", "refund"]),
        stranger=NUMBER,
    )
    def changes(self, order: int, what: str, stranger: int) -> str:
        """Pay, cancel or return a whole order; rarely another's."""
        chosen = self.order(order)
        person = self.person(chosen, stranger=stranger == 11)
        self.doors.change_by_api(person, chosen, what, None)
        return f"{person.name} {CALLS[what]} order {self.place(chosen)}"

    @act(
        5,
        needs="an order",
        order=NUMBER,
        what=st.sampled_from(["cancel", "refund"]),
        units=SOME,
        line=NUMBER,
        key=st.integers(0, 7),
    )
    def changes_a_part(self, order: int, what: str, units: int, line: int, key: int) -> str:
        """Cancel or return a part, under one of a few keys: some come again."""
        chosen = self.order(order)
        sale = None if line == 11 else self.sales[line % 3]
        if line < 9:
            sale = chosen.lines[line % len(chosen.lines)].sale
        part = Part(units, key_of(10**6 + (key if key < 3 else next(self.numbers))), sale)
        person = self.person(chosen)
        self.doors.change_by_api(person, chosen, what, part)
        some = f"{units} of {sale.name if sale else 'the only line'}"
        return f"{person.name} {CALLS[what]} {some} of order {self.place(chosen)}"

    @act(1, needs="an order", order=NUMBER)
    def asks_oddly(self, order: int) -> str:
        """Call the API as nobody should; nothing comes of it."""
        chosen = self.order(order)
        ask_oddly(self.world, self.person(chosen), chosen)
        visit_oddly(self.person(chosen))
        buy_elsewhere(self.world, self.person(chosen), chosen)
        return f"{chosen.buyer} makes odd calls about order {self.place(chosen)}"

    @act(1, rarely=NUMBER)
    def a_newcomer_comes(self, rarely: int) -> str:
        """Let somebody sign up, forget the password, and choose another one."""
        if rarely < 9:
            return ""
        rest.check_mails(self.world)
        newcomer = Newcomer(self.world)
        newcomer.arrive(self.sales[rarely % 3])
        newcomer.forget_password()
        return "somebody signs up, forgets the password, and chooses another one"

    @act(1, needs="an order", looks=True, who=PEOPLE, order=NUMBER)
    def looks(self, who: str, order: int) -> None:
        """Look by the API at what the other doors did."""
        person = self.world.people[who]
        self.doors.look_by_api(person, self.order(order))
        for sale in self.sales:
            self.doors.look_at_sale(person, sale)

    @act(1, needs="an order", looks=True, order=NUMBER, sale=NUMBER, visitor=st.booleans())
    def others_look(self, order: int, sale: int, visitor: bool) -> None:
        """Let a visitor look around, or another buyer look at an order: it is not theirs."""
        chosen, world = self.order(order), self.world
        self.doors.visit_in_vain(
            world.visitor if visitor else self.person(chosen, stranger=True), chosen
        )
        self.world.forget()
        if visitor:
            shown.check_home(world.visitor, world)
            shown.check_sale_page(world.visitor, self.sales[sale % 3], world)
            shown.check_cart(world.visitor, world)

    @act(1, looks=True, who=PEOPLE, chinese=st.booleans())
    def reads(self, who: str, chinese: bool) -> str:
        """Choose a language, for all that follows."""
        person = self.world.people[who]
        for language in (not chinese, chinese):  # within a second
            person.read_in(chinese=language)
            shown.check_home(person, self.world)
        return f"{who} reads {'Chinese' if chinese else 'English'}"

    @act(
        3,
        who=PEOPLE,
        units=st.tuples(st.integers(0, 2), SOME, st.integers(0, 1)),
        times=st.sampled_from([1, 1, 2]),
    )
    def fills_the_cart_and_checks_out(
        self, who: str, units: tuple[int, int, int], times: int
    ) -> str:
        """Put sales into the cart by their pages, set the units on its page, and buy it."""
        person, world = self.world.people[who], self.world
        said = []
        for sale, wanted in zip(self.sales, units, strict=True):
            found = self._form(
                person, f"/sales/{world.rows[sale].pk}/", f"/cart/{world.rows[sale].pk}/"
            )
            if wanted and found is not None:
                self.doors.send(person, person.tabs[-1], found, None)
                cart = forms(person.visit("/cart/"), "/cart/")
                update = next((form for form in cart if "update" in form.values), None)
                if update is not None:
                    said.append(self.doors.send(person, person.tabs[-1], update, wanted))
        checkout = self._form(person, "/cart/", "/cart/")
        for _ in range(times):
            if checkout:
                self.doors.send(person, person.tabs[-1], checkout, None)
        return f"{who} puts {', '.join(said)} and checks out {times} times"

    def _form(self, person: Person, where: str, action: str) -> Form | None:
        found = [form for form in forms(person.visit(where), where) if form.action == action]
        return found[-1] if found else None

    # --- the pages --------------------------------------------------------------------------

    @act(8, who=PEOPLE, where=NUMBER, form=NUMBER, units=TYPED, times=st.sampled_from([1, 1, 2]))
    def uses_a_page(self, who: str, where: int, form: int, units: int | None, times: int) -> str:
        """Open a page, and send one of its forms, perhaps with a double click."""
        person = self.world.people[who]
        self._visit(person, where)
        return self._send(person, person.tabs[-1], form, units, times)

    @act(2, looks=True, who=PEOPLE, where=NUMBER)
    def visits(self, who: str, where: int) -> None:
        """Open a page, which stays open in a tab."""
        self._visit(self.world.people[who], where)

    def _visit(self, person: Person, where: int) -> None:
        mine = self.model.of(person.name)
        if mine and where > 6:
            shown.check_order_page(person, mine[-1 - where % len(mine)], self.world)
        elif where < 4:
            shown.check_sale_page(person, self.sales[where % 3], self.world)
        elif where == 4:
            shown.check_home(person, self.world)
        elif where == 5:
            shown.check_orders(person, self.world)
        else:
            shown.check_cart(person, self.world)

    @act(2, needs="a tab", who=PEOPLE, tab=NUMBER, form=NUMBER, units=TYPED)
    def sends_an_old_form(self, who: str, tab: int, form: int, units: int | None) -> str:
        """Send a form of any tab: the back button, a page of before."""
        person = self.world.people[who]
        if not person.tabs:
            return ""
        return self._send(person, person.tabs[-1 - tab % len(person.tabs)], form, units, 1)

    def _send(self, person: Person, tab: Tab, form: int, units: int | None, times: int) -> str:
        found = forms(tab.page, tab.where)
        if not found:
            return ""
        chosen = found[-1 - form % len(found)]
        for _ in range(times):
            said = self.doors.send(person, tab, chosen, units)
        return f"{person.name} sends {said}{' twice' if times > 1 else ''} from {tab.where}"

    @act(1, who=PEOPLE, rarely=NUMBER)
    def signs_in_again(self, who: str, rarely: int) -> str:
        """Sign out and in again: the cart is gone, and older pages are no longer valid."""
        if rarely < 8:
            return ""
        person = self.world.people[who]
        person.browser.logout()  # which forgets the language too
        person.chinese = False
        person.sign_in()
        self.model.carts.pop(who, None)
        return f"{who} signs out and in again"
