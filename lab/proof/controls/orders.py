"""What is switched off of orders: their price, their time, their mails, what buyers are told."""

from __future__ import annotations

from lab.proof.controls.control import Control


def _trigger(when: str, table: str, does: str, condition: str = "true") -> tuple[str, ...]:
    """SQL that does something to each row before it is written; undone by ``_UNDONE``."""
    return (
        f"""CREATE FUNCTION sabotage() RETURNS trigger LANGUAGE plpgsql AS
            $$BEGIN {does} RETURN NEW; END$$""",
        f"""CREATE TRIGGER sabotage BEFORE {when} ON {table} FOR EACH ROW WHEN ({condition})
            EXECUTE FUNCTION sabotage()""",
    )


_UNDONE = ("DROP FUNCTION sabotage CASCADE",)

ORDER_CONTROLS = (
    Control(
        "price",
        "the price of the second unit of a line",
        ("P14",),
        mix="limits",
        before=_trigger(
            "INSERT",
            "shop_orderline",
            "NEW.amount := NEW.amount - NEW.amount / NEW.quantity;",
            "NEW.quantity > 1",
        ),
        after=_UNDONE,
    ),
    Control(
        "part",
        "the last minor unit of what a cancelled part is worth",
        ("P14",),
        mix="parts",
        before=_trigger(
            "UPDATE", "shop_order", "NEW.amount := NEW.amount + 1;", "NEW.amount < OLD.amount"
        ),
        after=_UNDONE,
    ),
    Control(
        "pause",
        "the pause of a sale",
        ("P15",),
        mix="windows",
        units=12,  # left when the sale is paused and closed, however fast it sells
        before=_trigger("UPDATE", "shop_sale", "NEW.paused := false;"),
        after=_UNDONE,
    ),
    Control(
        "window",
        "the end of a sale",
        ("P15",),
        mix="windows",
        units=12,  # left when the sale is paused and closed, however fast it sells
        before=_trigger(
            "UPDATE", "shop_sale", "NEW.ends_at := greatest(NEW.ends_at, OLD.ends_at);"
        ),
        after=_UNDONE,
    ),
    Control(
        "hold",
        "half of the time to pay",
        ("P16",),
        mix="holds",
        before=_trigger(
            "INSERT",
            "inventory_reservation",
            "NEW.deadline := now() + (NEW.deadline - now()) / 2;",
        ),
        after=_UNDONE,
    ),
    Control(
        "expiry",
        "the expiry of orders",
        ("P16",),
        mix="holds",
        # Longer than an order may await its payment.
        drain=25.0,
        before=_trigger(
            "UPDATE",
            "shop_order",
            "RAISE EXCEPTION 'nothing expires';",
            "NEW.status = 'expired'",
        ),
        after=_UNDONE,
    ),
    Control(
        "cart",
        "the second line of a cart",
        ("P17",),
        mix="carts",
        before=_trigger(
            "INSERT",
            "shop_orderline",
            """IF EXISTS (SELECT FROM shop_orderline WHERE order_id = NEW.order_id) THEN
                   RETURN NULL;
               END IF;""",
        ),
        after=_UNDONE,
    ),
    Control(
        "stranger",
        "the check whose order it is",
        ("P18",),
        mix="peepers",
        sabotage="stranger",
    ),
    Control(
        "mail",
        "the mail after a payment, though it is marked as sent",
        ("P19",),
        mix="payers",
        before=_trigger(
            "INSERT", "inventory_outboxmessage", "NEW.done := now();", "NEW.topic = 'mails.paid'"
        ),
        after=_UNDONE,
    ),
    Control(
        "address",
        "the address of a tenth of the mails",
        ("P19",),
        mix="payers",
        sabotage="address",
    ),
    Control(
        "busy",
        "the truth of a tenth of the answers: busy, though the order is opened",
        ("P20",),
        sabotage="busy",
    ),
    Control(
        "limit",
        "the limit beyond the first order",
        ("P20",),
        mix="limits",
        before=_trigger("INSERT OR UPDATE", "inventory_buyerquota", "NEW.used := NEW.allowed;"),
        after=_UNDONE,
    ),
    Control(
        "left",
        "the number of units that a buyer at the limit may still have: one more",
        ("P21",),
        mix="walkers",
        sabotage="left",
    ),
)
