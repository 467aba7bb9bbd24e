"""The fixtures of inventory's own tests."""

from inventory.tests.conftest import stock

__all__ = ["stock"]
