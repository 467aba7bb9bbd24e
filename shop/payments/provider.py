"""The interface of a payment provider: every call that the shop makes.

To use a real provider, implement `Provider` and name it in `PAYMENT_PROVIDER`. The shop
relies on this:

- Every call that moves money carries an idempotency key: repeats of a request with its key get the
  first answer. A provider may forget a key after a day. That is safe, because an intent is captured
  once whatever the keys are, and because before a refund is repeated it is looked for
  (`find_refund`). A key has letters, digits and hyphens, at most 120.
- A payment may need the buyer: a redirect, a QR code, or a form of the provider's own script. The
  intent then has an `action`. What the buyer did is reported by a webhook, and found by `get`.
- What is answered is compared with what was asked (`shop.payments.identification`), so an adapter
  returns what its provider says, not what the shop has sent.
- Only a definite answer is definite. A timeout, a cut connection or a server error is
  `PaymentUnknown`: the request may have succeeded, and repeating it gets the result.
- Later changes (such as a capture that takes a while) arrive as signed webhooks, at least once
  and in any order. Signature, envelope and names are the provider's own: `verify` returns events
  of ours.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Literal

from django.conf import settings
from django.utils.module_loading import import_string

from shop import money
from shop.operating import metrics
from shop.refusals import Refusal

IntentStatus = Literal[
    "requires_action", "requires_capture", "processing", "captured", "failed", "cancelled"
]
ActionKind = Literal["redirect", "qr", "script"]
RefundStatus = Literal["pending", "succeeded", "failed"]


class PaymentDeclined(Exception):
    """The provider refused: no money was moved.

    Attributes:
        code: the provider's code for the reason.
    """

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class PaymentUnknown(Refusal):
    """No definite answer came. Repeating the call with the same key gets the result.

    Args:
        reason: for the log; buyers do not see it.
    """

    def __init__(self, reason: str) -> None:
        super().__init__("outcome_unknown")
        self._reason = reason

    def __str__(self) -> str:
        return self._reason


class NotFromProvider(Exception):
    """A webhook whose signature is wrong or too old."""


@dataclass(frozen=True, slots=True)
class Action:
    """What the buyer has to do for a payment.

    Attributes:
        kind: `redirect` to the provider's page, a `qr` code to be scanned by the provider's app, or
            a form that the provider's own `script` shows.
        url: of the provider's page, for `redirect`.
        data: what the code says, for `qr`.
        client_secret: what the script needs, for `script`.
    """

    kind: ActionKind
    url: str = ""
    data: str = ""
    client_secret: str = ""


@dataclass(frozen=True, slots=True)
class Intent:
    """A payment in the provider's view.

    Attributes:
        id: the provider's id.
        order: the shop's order id.
        amount: to be captured, or captured; in the provider's minor units.
        currency: ISO 4217 code.
        status: `requires_action` of the buyer, `requires_capture` (nothing moved yet), `processing`
            (a webhook will follow), `captured`, `failed` or `cancelled`. An attempt that failed and
            may be repeated with the same intent, such as with another card, `requires_action`.
        reference: the key under which it was created, if the provider can keep it (Stripe:
            `metadata`), which distinguishes two shops on one account. Empty if not.
        action: what the buyer has to do, if it `requires_action`. None if the provider tells it
            only once: the shop has kept it.
    """

    id: str
    order: int
    amount: int
    currency: str
    status: IntentStatus
    reference: str = ""
    action: Action | None = None


@dataclass(frozen=True, slots=True)
class ProviderRefund:
    """A refund in the provider's view.

    Attributes:
        id: the provider's id.
        intent: the refunded payment.
        amount: in the provider's minor units of the payment's currency.
        status: `pending` (a webhook will follow), `succeeded` or `failed`. One that succeeded may
            fail later.
        currency: ISO 4217 code; empty if the provider does not say.
    """

    id: str
    intent: str
    amount: int
    status: RefundStatus
    currency: str = ""


@dataclass(frozen=True, slots=True)
class Dispute:
    """A buyer's bank demands the money of a payment back (a chargeback).

    Attributes:
        id: the provider's id.
        intent: the disputed payment.
        amount: in the provider's minor units of the payment's currency.
        status: `won` if the money stays or is back with the shop; `lost`, `open` or anything else
            while it is not.
    """

    id: str
    intent: str
    amount: int
    status: str


@dataclass(frozen=True, slots=True)
class Event:
    """A webhook event, in our words.

    Attributes:
        id: the provider's own, at most 100 characters. An event of the same id takes effect once.
        type: the provider's name for it, at most 60 characters, for the log.
        about: the payment, refund or dispute after it; None if the shop has no use for it.
        created: seconds since 1970; None if the provider does not say.
    """

    id: str
    type: str
    about: Intent | ProviderRefund | Dispute | None
    created: float | None = None


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """Money that the provider moved: a capture or a refund, in its minor units."""

    id: int
    order: int
    intent: str
    operation: Literal["capture", "refund"]
    amount: int
    currency: str
    reference: str = ""


class Provider(ABC):
    """What a payment provider does for the shop.

    All its amounts, in calls and in answers, are in the provider's own minor units: see `decimals`.

    Every method may raise `PaymentUnknown`, and those that move money
    `PaymentDeclined`. They are never called inside a database transaction, which would make
    others wait for the provider.
    """

    def decimals(self, currency: str) -> int:
        """Return how many decimal places the provider counts a currency's amounts in.

        ISO 4217's, unless an adapter says otherwise. Stripe, for example, counts MGA without
        decimal places, where ISO 4217 has two, and ISK and UGX with two, where it has none.
        """
        return money.decimals(currency)

    # For actions of kind `script`:

    script: str = ""
    """Address of the provider's script."""

    form_script: str = ""
    """Name of the static file with the script of ours that shows the form."""

    sources: Mapping[str, str] = {}
    """What the payment page loads besides the shop's own, by directive of the content security
    policy."""

    @property
    def public_key(self) -> str:
        """Return what the script needs to know the account; no secret."""
        return ""

    def step(self, currency: str) -> int:
        """Return of how many of its units an amount of a currency must be a multiple."""
        return 1

    @abstractmethod
    def create_intent(
        self,
        *,
        order: int,
        amount: int,
        currency: str,
        key: str,
        return_url: str = "",
        expires: datetime | None = None,
    ) -> Intent:
        """Create a payment; no money is moved yet.

        Args:
            order: id of the order, which the provider repeats in every message on this payment.
            amount: in the provider's minor units.
            currency: ISO 4217 code.
            key: idempotency key, and the reference to keep with the payment: it names this
                database, the order and the attempt.
            return_url: the shop's page to which the provider sends the buyer back; empty for a
                buyer without a browser.
            expires: until when the shop waits for the buyer. The provider should accept nothing
                after it, if it can.
        """

    @abstractmethod
    def capture(self, intent: str, *, key: str) -> Intent:
        """Capture the money; `captured`, or `processing` if that takes a while."""

    @abstractmethod
    def cancel(self, intent: str, *, key: str) -> Intent:
        """Cancel a payment that was not captured; afterwards it never will be."""

    @abstractmethod
    def refund(self, intent: str, *, amount: int, key: str) -> ProviderRefund:
        """Refund money, in total never more than was captured.

        Args:
            intent: the payment.
            amount: in the provider's minor units of the payment's currency.
            key: idempotency key.
        """

    @abstractmethod
    def get(self, intent: str) -> Intent:
        """Return the present state of a payment: never from a search that lags behind."""

    @abstractmethod
    def find_refund(self, intent: str, *, key: str) -> ProviderRefund | None:
        """Return the present state of the refund that was asked for under a key; None if none was.

        Raises:
            PaymentUnknown: the provider cannot tell.
        """

    @abstractmethod
    def verify(self, body: bytes, headers: Mapping[str, str]) -> list[Event]:
        """Check a webhook and return its events.

        Args:
            body: exactly as received; re-encoding could change what was signed.
            headers: of the request, by name in any case.

        Raises:
            NotFromProvider: the signature is wrong or old; nothing was read.
            ValueError: it is signed but cannot be parsed.
        """

    def ledger(self) -> Iterable[LedgerLine] | None:
        """Return every movement of money, oldest first, for the audit to compare with.

        None if the provider lists none; then the audit compares nothing with it.
        """
        return None


def order_named(text: str) -> int:
    """Return the order that the text of a payment names; 0 if it names none, as a payment of
    another program on the account.
    """
    return int(text) if text.isdecimal() and len(text) < 19 else 0


@contextmanager
def measured() -> Iterator[None]:
    """Measure a call of the provider, and count what came of it."""
    start, outcome = time.monotonic(), "unknown"
    try:
        yield
        outcome = "answered"
    except PaymentDeclined:
        outcome = "declined"
        raise
    finally:
        metrics.PROVIDER_SECONDS.labels(outcome).observe(time.monotonic() - start)


def to_provider(amount: int, currency: str) -> int:
    """Convert an amount of the books to the provider's minor units.

    Raises:
        PaymentDeclined: the provider cannot express it.
    """
    finer, coarser = _factors(currency)
    units, rest = divmod(amount * finer, coarser)
    if rest or units % provider().step(currency):
        raise PaymentDeclined("amount_not_expressible")
    return units


def from_provider(amount: int, currency: str) -> int:
    """Convert an amount of the provider to the books' minor units; a fraction is rounded up, so
    that it differs from whatever the books say.
    """
    finer, coarser = _factors(currency)
    return -(-amount * coarser // finer)


def _factors(currency: str) -> tuple[int, int]:
    """Return by what to multiply, and by what to divide, an amount of the books."""
    places: int = provider().decimals(currency) - money.decimals(currency)
    return int(10 ** max(places, 0)), int(10 ** max(-places, 0))


@cache
def provider() -> Provider:
    """Return the provider that the settings name; one object per process."""
    kind: type[Provider] = import_string(settings.PAYMENT_PROVIDER)
    return kind()
