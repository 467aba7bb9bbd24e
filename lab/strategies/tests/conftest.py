"""The fixtures of inventory's tests."""

from inventory.tests.conftest import stock

__all__ = ["stock"]
