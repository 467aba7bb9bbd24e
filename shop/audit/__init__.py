"""Does everything fit together? Stock, orders, money here and at the provider, and what is late."""

from shop.audit.report import Report, examine, raise_alerts

__all__ = ["Report", "examine", "raise_alerts"]
