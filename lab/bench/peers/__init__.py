"""Plain shops without this project's ideas, as a good engineer would write them in an afternoon.

They serve the same purchase on the same servers: the same path, token, idempotency key and answer,
and a reservation and an order in one transaction. They leave out what a sale needs besides that: a
window, a limit per buyer, a ledger, an outbox, retries.
"""
