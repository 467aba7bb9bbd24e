"""A simulated payment provider with its own process, database and ledger.

Nothing in here is imported by the shop, and it imports of the shop only how the environment is
read; they talk over HTTP. It behaves as badly as it is told to (`behaviour.py`).
"""
