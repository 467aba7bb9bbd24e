"""Celery's tasks. Each does a bounded piece of what the database says is to be done.

None carries anything: which orders are due and which messages are open, the database knows. So a
task may be lost, doubled, or run by several workers at once, and nothing is lost or doubled.
"""

from shop import expiry, followup, orders
from shop.celery import app
from shop.payments import recovery


@app.task(name="shop.follow_up")
def follow_up() -> int:
    """Deliver the outbox and send the mails that are owed."""
    return followup.follow_up()


@app.task(name="shop.settle_payments")
def settle_payments() -> int:
    """Ask the payment provider about what is pending with it."""
    return recovery.settle()


@app.task(name="shop.expire_due")
def expire_due() -> int:
    """Expire the orders that the delay queue says are due."""
    return expiry.expire_due()


@app.task(name="shop.expire_orders")
def expire_orders() -> int:
    """Expire orders whose time to pay has passed."""
    return orders.expire()
