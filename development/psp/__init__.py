"""A fake payment provider, which moves no money: its books in SQLite, and a process with its API.

Development, demonstrations and proofs run the process (`PaymentProvider` in `processes.py`), and
the shop talks to it over HTTP. Tests of the shop use the books alone, in their own process
(`shop/tests/provider.py`). The shop itself imports nothing from here; of the shop, this imports
its environment and its money only. `books.Behaviour` configures the faults.
"""
