"""The shop's fixtures."""

from shop.conftest import ann, fake_provider, sale, sale_of

__all__ = ["ann", "fake_provider", "sale", "sale_of"]
