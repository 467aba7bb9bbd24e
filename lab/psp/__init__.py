"""A simulated payment provider: one process with its own books in SQLite.

The shop imports nothing from here; of the shop, this imports only the code that reads the
environment. They talk over HTTP. `books.Behaviour` configures its faults.
"""
