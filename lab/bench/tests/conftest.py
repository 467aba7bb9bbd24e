"""The server of the lock package's tests."""

from locking.tests.conftest import valkey_server

__all__ = ["valkey_server"]
