"""Stories that are told in every run, as failing ones are printed."""

from __future__ import annotations

from typing import Any

Steps = list[tuple[str, dict[str, Any]]]


def opening(**different: Any) -> tuple[str, dict[str, Any]]:
    """Return the first step of a story."""
    usual = {"stock": 4, "limit": 3, "prices": (1_250, 1_990), "resold": True, "currency": "JPY"}
    usual |= {"hold": 90, "opens": -5, "eyes": False, "payments": True}
    return "opens", {**usual, **different}


def bought(who: str, sale: int, units: int = 1) -> tuple[str, dict[str, Any]]:
    """Return the step of a purchase."""
    return "buys", {"who": who, "sale": sale, "units": units, "again": False}


def page(who: str, where: int, form: int, units: int | None = None, times: int = 1) -> Any:
    """Return the step of a form that is sent; the last of a page has number 0."""
    return "uses_a_page", {"who": who, "where": where, "form": form, "units": units, "times": times}


def changed(what: str, order: int = 0) -> tuple[str, dict[str, Any]]:
    """Return the step of paying, cancelling or returning the n-th last order by the API."""
    return "changes", {"order": order, "what": what, "stranger": 0}


def some(what: str, key: int, order: int = 0) -> tuple[str, dict[str, Any]]:
    """Return the step of giving one unit of the first line back."""
    return "changes_a_part", {"order": order, "what": what, "units": 1, "line": 0, "key": key}


def operator(what: str, sale: int, units: int = 1) -> tuple[str, dict[str, Any]]:
    """Return the step of a change in the admin."""
    return "the_operator_changes", {"sale": sale, "what": what, "units": units}


def provider(mood: str) -> tuple[str, dict[str, Any]]:
    """Return the step of another mood of the provider."""
    return "the_provider_becomes", {"mood": mood, "dies": False}


def later(seconds: int) -> tuple[str, dict[str, Any]]:
    """Return the step of 1, 61, 301 or 901 seconds that go by."""
    return "time_passes", {"towards": (1, 61, 301, 901).index(seconds), "edge": 0}


def waits(seconds: int) -> tuple[str, dict[str, Any]]:
    """Return the step of any number of seconds that go by."""
    return "seconds_pass", {"seconds": seconds}


CHANGES = ("payment", "cancel", "refund")
Step = tuple[str, dict[str, Any]]
ENDS: Step = ("the_clock_ends_orders", {"task": "expire_due", "times": 2})
FOLLOWS: Step = ("the_shop_follows_up", {"times": 2})
MAILS: Step = ("the_shop_sends_mails", {})
ASKS: Step = ("the_shop_asks_the_provider", {"times": 1})
REPAIRS: Step = ("the_operator_repairs", {})
WATCHES: Step = ("the_operator_looks", {"order": 0})
CLERK: Step = ("a_clerk_tries", {})
ODDLY: Step = ("asks_oddly", {"order": 0})
LOOKS: Steps = [
    *(("visits", {"who": "Ann", "where": where}) for where in (0, 1, 2, 4, 5, 6, 7)),
    ("others_look", {"order": 0, "sale": 0, "visitor": True}),
    ("others_look", {"order": 0, "sale": 0, "visitor": False}),
    ("looks", {"who": "Ann", "order": 0}),
]


def reads(who: str, *, chinese: bool = True) -> tuple[str, dict[str, Any]]:
    """Return the step of choosing a language."""
    return "reads", {"who": who, "chinese": chinese}


TOURS: dict[str, Steps] = {
    "carts and forms, in Chinese": [
        opening(stock=3, limit=2, opens=120, currency="KWD", hold=7_260),
        reads("Ann"),
        ("buys_a_cart", {"who": "Bob", "units": (1, 1, 2), "again": False}),  # in two currencies
        page("Bob", 0, 0),
        page("Bob", 6, 1, 2),
        page("Bob", 2, 0),
        page("Bob", 2, 1),
        ("fills_the_cart_and_checks_out", {"who": "Ann", "units": (2, 2, 0), "times": 2}),
        *LOOKS,
        ("sends_an_old_form", {"who": "Ann", "tab": 5, "form": 0, "units": None}),
        bought("Bob", 0),
        *LOOKS,
        page("Ann", 0, 1, 2),
        page("Bob", 6, 0),
        page("Bob", 6, 0, times=2),
        operator("pause", 1),
        operator("product", 2, 2),
        page("Ann", 1, 1),
        page("Ann", 7, 0, 1, times=2),
        page("Ann", 7, 9, 3),
        *LOOKS,
        ("time_passes", {"towards": 11, "edge": 0}),
        operator("closes", 1),
        ("time_passes", {"towards": 6, "edge": 1}),
        *LOOKS,
        page("Bob", 7, 1),
        page("Bob", 7, 1),
        ("sends_an_old_form", {"who": "Bob", "tab": 1, "form": 0, "units": None}),
        page("Bob", 0, 0),
        page("Bob", 6, 2),  # removes it from the cart again
        ("visits", {"who": "Bob", "where": 6}),
        ODDLY,
        ("signs_in_again", {"who": "Ann", "rarely": 9}),
        ("sends_an_old_form", {"who": "Ann", "tab": 0, "form": 0, "units": None}),
        FOLLOWS,
        MAILS,
    ],
    "money that comes late, twice and back": [
        opening(stock=6, limit=4, prices=(99_900, 0), hold=30, eyes=True),
        reads("Bob"),
        bought("Ann", 0, 3),
        provider("declines"),
        changed("payment"),
        ("visits", {"who": "Ann", "where": 7}),
        provider("works"),
        changed("payment"),
        ("visits", {"who": "Ann", "where": 7}),
        *(("a_stranger_reports_a_payment", {"how": how}) for how in ("secret", "unknown", "new")),
        some("cancel", 0),
        ("the_provider_finishes", {"which": 0, "well": True}),
        ("news_arrive", {"which": 0, "times": 2, "age": -310, "other": True}),
        ("news_arrive", {"which": 0, "times": 2, "age": 310, "other": True}),
        ("news_come_too_early", {"which": 0}),
        ("news_arrive", {"which": 0, "times": 2, "age": 0, "other": True}),
        ("the_provider_contradicts_itself", {"which": 0}),
        ("visits", {"who": "Ann", "where": 7}),
        WATCHES,
        provider("declines"),
        some("refund", 1),
        ASKS,
        WATCHES,
        provider("answers"),
        *(("the_operator_asks_for_a_refund_again", {"which": 0}),) * 2,
        some("refund", 1),
        ("visits", {"who": "Ann", "where": 7}),
        bought("Bob", 0, 2),
        provider("works"),
        changed("payment"),
        ("the_provider_finishes", {"which": 0, "well": False}),
        ("news_arrive", {"which": 1, "times": 1, "age": 0, "other": False}),
        later(61),
        ENDS,
        ("the_provider_contradicts_itself", {"which": 1}),
        ("visits", {"who": "Bob", "where": 7}),
        FOLLOWS,
        MAILS,
        provider("silent"),
        changed("refund"),
        changed("payment", 1),
        WATCHES,
        later(901),
        WATCHES,
        provider("answers"),
        REPAIRS,
        WATCHES,
        changed("refund", 1),
        ("the_provider_contradicts_itself", {"which": -1}),  # of the last refund
        CLERK,
        ("visits", {"who": "Ann", "where": 7}),
        FOLLOWS,
        ("mails_are_given_up", {"by": "the repair"}),
        MAILS,
    ],
    "parts that come back one after the other": [
        opening(stock=6, limit=4),
        bought("Ann", 0, 4),
        FOLLOWS,
        changed("payment"),
        FOLLOWS,
        ENDS,
        some("refund", 1),
        ("repeats_the_purchase", {"who": "Ann"}),
        provider("works"),
        some("refund", 2),
        ASKS,
        ("the_provider_finishes", {"which": 0, "well": False}),
        ("news_arrive", {"which": 0, "times": 1, "age": 0, "other": False}),
        provider("answers"),
        ("the_operator_asks_for_a_refund_again", {"which": 0}),
        ("news_arrive", {"which": 0, "times": 2, "age": 0, "other": True}),  # of the first try
        provider("declines"),
        some("refund", 0),
        provider("answers"),
        ("news_arrive", {"which": 0, "times": 2, "age": 0, "other": True}),
        changed("refund"),  # of which a part cannot be given back
        ("visits", {"who": "Ann", "where": 7}),
        bought("Ann", 1, 3),
        some("cancel", 2),
        changed("payment"),
        some("refund", 2),  # under the key of what was cancelled
        some("refund", 1),  # under a key that another order has had
        # Returned units of Phone are sold again, those of Alpha are not, in a cart and in parts.
        *(
            step
            for last in (changed("refund"), some("refund", 8))
            for step in (
                ("buys_a_cart", {"who": "Bob", "units": (1, 1, 0), "again": False}),
                changed("payment"),
                last,
            )
        ),
        provider("works"),
        changed("refund"),
        ("the_provider_finishes", {"which": 0, "well": True}),
        ASKS,  # the news of it are lost
        ("visits", {"who": "Bob", "where": 7}),
        provider("answers"),
        ("buys_a_cart", {"who": "Bob", "units": (1, 1, 0), "again": False}),
        changed("payment"),
        provider("declines"),
        some("refund", 9),
        changed("refund"),
        provider("silent"),
        ("the_operator_asks_for_a_refund_again", {"which": 11}),  # for both
        provider("answers"),
        ASKS,
        bought("Ann", 2),
        changed("payment"),
        bought("Bob", 2),
        changed("cancel"),
        ("the_operator_hands_over", {"order": 0, "then": ""}),  # among orders that have ended
        # Each order is asked for all that can be asked for once more, whatever became of it.
        *(changed(what, order) for order in range(5) for what in CHANGES),
        ("a_newcomer_comes", {"rarely": 9}),
    ],
    "a cart of which a line is cancelled, and which is paid late": [
        opening(stock=6, eyes=True),
        ("buys_a_cart", {"who": "Ann", "units": (2, 1, 0), "again": False}),
        provider("works"),
        changed("payment"),
        *(
            ("changes_a_part", {"order": 0, "what": "cancel", "units": 1, "line": n, "key": 7})
            for n in (11, 0)  # the order has several lines: a part must say of which
        ),
        later(61),
        ("the_clock_ends_orders", {"task": "expire_orders", "times": 2}),
        ("the_provider_finishes", {"which": 0, "well": True}),
        ("news_arrive", {"which": 0, "times": 1, "age": 0, "other": False}),
        ("visits", {"who": "Ann", "where": 7}),
        provider("answers"),
        # Line by line, until nothing is left; the last one comes again.
        *(
            step
            for what in ("cancel", "refund")
            for step in (
                ("buys_a_cart", {"who": "Bob", "units": (1, 1, 0), "again": False}),
                *([changed("payment")] if what == "refund" else []),
                *(
                    (
                        "changes_a_part",
                        {"order": 0, "what": what, "units": 1, "line": n, "key": n},
                    )
                    for n in (0, 1, 1)
                ),
                ("visits", {"who": "Bob", "where": 7}),
            )
        ),
    ],
    "paid late, when another has bought the units, or the buyer others": [
        opening(hold=30, stock=4),
        provider("works"),
        ("buys_a_cart", {"who": "Ann", "units": (2, 1, 0), "again": False}),
        changed("payment"),
        bought("Ann", 1, 2),
        changed("payment"),
        later(61),
        ("the_clock_ends_orders", {"task": "expire_orders", "times": 1}),
        bought("Bob", 0, 3),
        bought("Ann", 1, 2),
        *(("the_provider_finishes", {"which": 0, "well": True}),) * 2,
        *(("news_arrive", {"which": n, "times": 1, "age": 0, "other": False}) for n in (0, 1)),
        *(("visits", {"who": "Ann", "where": where}) for where in (7, 8, 9)),
        provider("answers"),
        ASKS,
        # A cart is bought from one tab, and then once more from another.
        page("Bob", 2, 0),
        ("visits", {"who": "Bob", "where": 6}),
        page("Bob", 6, 0),
        ("sends_an_old_form", {"who": "Bob", "tab": 2, "form": 0, "units": None}),
    ],
    "every deadline, to the second": [
        opening(hold=30, opens=120, currency="CNY", eyes=True),
        bought("Ann", 0),
        bought("Bob", 0),
        provider("silent"),
        changed("payment"),
        waits(29),
        ("visits", {"who": "Ann", "where": 7}),
        waits(1),  # both orders are to be paid before this second
        ("visits", {"who": "Ann", "where": 7}),
        changed("payment", 1),
        waits(60),
        WATCHES,
        waits(1),
        WATCHES,
        waits(28),
        bought("Ann", 2),
        ("buys_a_cart", {"who": "Ann", "units": (1, 1, 2), "again": False}),
        waits(1),  # Gamma opens
        ("buys_a_cart", {"who": "Ann", "units": (2, 1, 3), "again": False}),
        ("buys_a_cart", {"who": "Ann", "units": (2, 1, 0), "again": True}),
        waits(180),
        WATCHES,
        waits(1),
        WATCHES,
        waits(98),
        bought("Ann", 1),
        operator("restock", 0, 3),
        ("buys_a_cart", {"who": "Bob", "units": (2, 1, 0), "again": False}),
        ("buys_a_cart", {"who": "Bob", "units": (2, 1, 3), "again": True}),  # with a line more
        waits(1),  # Phone ends
        ("repeats_the_purchase", {"who": "Bob"}),
        ("looks", {"who": "Ann", "order": 0}),
        bought("Ann", 1),
        waits(500),
        WATCHES,
        waits(1),
        WATCHES,
    ],
    "two sales to come, and a payment that nobody answered": [
        opening(opens=300),
        *(("visits", {"who": "Ann", "where": where}) for where in (1, 2, 4)),
        page("Bob", 0, 0),
        page("Bob", 6, 0),  # buys the cart
        page("Bob", 0, 0, 2),
        ("sends_an_old_form", {"who": "Bob", "tab": 4, "form": 0, "units": None}),
        bought("Ann", 0),
        provider("silent"),
        changed("payment"),
        provider("answers"),
        ASKS,
        bought("Bob", 0),
        provider("silent"),
        changed("payment"),
        later(901),
        ("the_clock_ends_orders", {"task": "expire_orders", "times": 1}),
        ASKS,
        provider("answers"),
        ASKS,
    ],
    "purchases of which nobody knows what came, and while an operator changes the sale": [
        opening(stock=9, limit=9),
        reads("Ann"),
        *(
            step
            for number, point in enumerate(("before-commit", "after-commit"))
            for step in (
                page("Ann", 0, 0),  # into the cart
                (
                    "gets_no_answer",
                    {"point": point, "who": "Ann", "sale": number, "cart": number == 1},
                ),
            )
        ),
        *LOOKS,
        waits(1),
        *(
            ("buys_just_after_a_change", {"who": "Bob", "sale": sale, "what": what, "cart": cart})
            for sale, what, cart in ((0, "price", False), (1, "end", False), (0, "pause", True))
        ),
    ],
    "a shop that takes no payments": [
        opening(payments=False, eyes=True),
        reads("Ann"),
        bought("Ann", 0, 2),
        bought("Bob", 2, 2),
        changed("payment"),
        *LOOKS,
        some("cancel", 0, 1),
        FOLLOWS,
        *LOOKS,
        some("refund", 1, 1),
        ("visits", {"who": "Bob", "where": 7}),
        some("refund", 2),
        changed("refund"),
        changed("payment"),
        MAILS,
        bought("Bob", 0),
        changed("cancel"),
        ("buys_a_cart", {"who": "Ann", "units": (1, 1, 0), "again": False}),
        waits(60),  # it can no longer be confirmed
        changed("payment"),
        FOLLOWS,
        *LOOKS,
        ENDS,
        MAILS,
        ("visits", {"who": "Ann", "where": 7}),
        bought("Ann", 2),
        later(61),
        WATCHES,
        REPAIRS,
        ("the_operator_hands_over", {"order": 0, "then": "refund"}),
        ("visits", {"who": "Ann", "where": 7}),
        ("visits", {"who": "Ann", "where": 5}),
    ],
    "an operator's day": [
        opening(stock=5, currency="KWD", eyes=True, resold=False),
        WATCHES,
        *(operator(what, 2, units) for what in ("price", "hold", "limit") for units in (2, 3)),
        *(operator(what, 1) for what in ("pause", "pause", "restock", "rules", "price", "product")),
        operator("pause", 0),
        bought("Ann", 0),
        operator("resume", 0),
        operator("closes", 0, 3),
        bought("Ann", 0, 2),
        operator("limit", 0, 1),  # which is less than Ann has
        bought("Ann", 0),
        operator("limit", 0, 3),
        bought("Bob", 0, 3),
        operator("pause", 0),  # while all is reserved
        ("looks", {"who": "Ann", "order": 0}),
        ("visits", {"who": "Ann", "where": 0}),
        operator("resume", 0),
        WATCHES,
        changed("payment"),
        changed("payment", 1),
        ("the_operator_hands_over", {"order": 0, "then": "part"}),
        ("the_operator_hands_over", {"order": 0, "then": "refund"}),
        *(("visits", {"who": who, "where": 7}) for who in ("Ann", "Bob")),
        some("refund", 3, 1),
        changed("refund", 1),
        ("numbers_are_skipped", {}),
        bought("Ann", 0),
        operator("price", 0, 3),  # which an order does not follow
        some("cancel", 4),
        bought("Bob", 2),
        ("hurries", {"who": "Ann"}),
        later(61),
        WATCHES,
        ("the_shop_follows_up", {"times": 1}),
        later(301),
        WATCHES,
        ("mails_are_given_up", {"by": "an operator"}),
        MAILS,
        later(901),
        WATCHES,
        ("the_shop_follows_up", {"times": 1}),
        ("mails_are_given_up", {"by": "the repair"}),
        REPAIRS,
        WATCHES,
        bought("Ann", 2),
        ("visits", {"who": "Ann", "where": 5}),
        bought("Bob", 2),
        CLERK,
        *(("the_operator_errs", {"sale": number}) for number in range(3)),
        later(301),  # alerts that are closed are opened once more
        ("the_clock_ends_orders", {"task": "expire_orders", "times": 1}),  # two at once
        WATCHES,
    ],
    "an order paid late was taken again against a limit that had been lowered": [
        opening(),
        bought("Ann", 2, 2),
        operator("limit", 2, 1),
        (
            "paying_takes_a_while",
            {"which": 0, "meanwhile": "expired", "part": False, "end": "captured"},
        ),
    ],
    "a payment that the provider called failed was taken, and so was the next one": [
        opening(),
        bought("Ann", 0, 2),
        provider("mute"),
        changed("payment"),
        ("the_provider_contradicts_itself", {"which": 0}),
        provider("answers"),
        changed("payment"),
        WATCHES,
        REPAIRS,
        WATCHES,
        some("refund", 0),
        changed("refund"),
        WATCHES,
    ],
    "saving a sale's form moves its opening by part of a second": [
        opening(opens=120),
        ("the_operator_changes", {"sale": 2, "what": "rules", "units": 2}),
        ("time_passes", {"towards": 11, "edge": -1}),
        ("visits", {"who": "Ann", "where": 2}),
    ],
    "a cart is not told that its sold-out units may come back": [
        opening(stock=2, limit=2),
        ("buys", {"who": "Ann", "sale": 0, "units": 2, "again": False}),
        ("uses_a_page", {"who": "Bob", "where": 0, "form": 0, "units": 1, "times": 1}),
        ("uses_a_page", {"who": "Bob", "where": 6, "form": 0, "units": None, "times": 2}),
        reads("Bob"),
        bought("Bob", 0),
    ],
    "a late payment keeps the money for a part that was cancelled meanwhile": [
        opening(),
        ("buys", {"who": "Ann", "sale": 0, "units": 2, "again": False}),
        (
            "paying_takes_a_while",
            {"which": 0, "part": True, "meanwhile": "", "end": "captured"},
        ),
    ],
    "a part of an order that was handed over is returned": [
        opening(eyes=True),
        ("buys", {"who": "Ann", "sale": 0, "units": 3, "again": False}),
        ("changes", {"order": 0, "what": "payment", "stranger": 0}),
        ("the_operator_hands_over", {"order": 0, "then": "part"}),
        ("the_operator_hands_over", {"order": 0, "then": ""}),
    ],
    "the form of a part that is sent twice gives two parts back": [
        opening(),
        ("buys", {"who": "Ann", "sale": 0, "units": 3, "again": False}),
        ("changes", {"order": 0, "what": "payment", "stranger": 0}),
        ("uses_a_page", {"who": "Ann", "where": 7, "form": 0, "units": 1, "times": 2}),
    ],
    "a price in yen is multiplied by 100 when it is saved": [
        opening(eyes=True),
        ("the_operator_changes", {"sale": 2, "what": "price", "units": 1}),
    ],
    "messages that wait are taken for mails, and mails that were given up are not counted": [
        opening(eyes=True),
        ("buys", {"who": "Ann", "sale": 0, "units": 2, "again": False}),
        ("time_passes", {"towards": 2, "edge": 0}),
        ("the_operator_looks", {"order": 0}),
        ("the_shop_follows_up", {"times": 1}),
        ("mails_are_given_up", {"by": "an operator"}),
        ("time_passes", {"towards": 2, "edge": 0}),
        ("the_operator_looks", {"order": 0}),
        ("mails_are_given_up", {"by": "the repair"}),
    ],
    "a cart is not counted towards the rate limit": [
        opening(),
        ("buys_a_cart", {"who": "Ann", "units": (1, 1, 0), "again": False}),
        ("hurries", {"who": "Ann"}),
    ],
}
"""Stories that lead past every page, form, mail and alert, which chance may leave out of a run; and
some that once ended badly."""
