"""What the provider's news mean for orders. Each may come twice, late, and in any order."""

from __future__ import annotations

from shop.payments.provider import Intent, ProviderRefund


class NotYet(Exception):
    """This is about something that is not written down here yet; the provider is to tell again."""


def captured(intent: Intent) -> None:
    """A payment's money was taken. Runs in the transaction that marks the news as processed.

    Raises:
        NotYet: the payment is not known here yet.
    """
    raise NotYet(intent.id)


def failed(intent: Intent) -> None:
    """A payment failed or was cancelled; nothing was taken.

    Raises:
        NotYet: the payment is not known here yet.
    """
    raise NotYet(intent.id)


def refunded(refund: ProviderRefund) -> None:
    """Money has arrived back, or could not be given back.

    Raises:
        NotYet: the refund is not known here yet.
    """
    raise NotYet(refund.id)
