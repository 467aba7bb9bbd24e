"""A simulated payment provider with its own process, database and ledger.

The shop imports nothing from here; of the shop, this imports only the code that reads the
environment. They talk over HTTP. `behaviour.py` configures its faults.
"""
