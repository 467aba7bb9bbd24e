"""WeChat Pay: a QR code on the payment page, which the buyer's WeChat scans (docs/wechat-pay.md).

A payment is a "Native" order of API v3. WeChat takes the money as soon as the buyer confirms, so
nothing is captured; an order that nobody has paid is closed. A payment's id is the merchant's own
number, made from the key: creating it again under the same key gets the same one.

The package `wechatpayv3` signs the requests, and checks and decrypts what WeChat answers and
reports. Its errors have no class of their own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cached_property
from typing import Any, TypeVar

from django.conf import settings
from wechatpayv3 import WeChatPay, WeChatPayType  # type: ignore[import-untyped]

from shop.catalogue.sales import database_time
from shop.payments.provider import (
    Action,
    Event,
    Intent,
    IntentStatus,
    NotFromProvider,
    PaymentDeclined,
    PaymentUnknown,
    Provider,
    ProviderRefund,
    RefundStatus,
    measured,
    order_named,
)

TIMEOUT = (1.0, 5.0)
"""Seconds to connect, and to wait for each part of an answer."""

T = TypeVar("T")

TOLERANCE = 5 * 60
"""Maximum age of a signature in seconds."""

STATES: Mapping[str, IntentStatus] = {
    "NOTPAY": "requires_action",
    "USERPAYING": "processing",
    "SUCCESS": "captured",
    "REFUND": "captured",
    "CLOSED": "cancelled",
    "REVOKED": "cancelled",
    "PAYERROR": "failed",
}

REFUND_STATES: Mapping[str, RefundStatus] = {
    "PROCESSING": "pending",
    "SUCCESS": "succeeded",
    "CLOSED": "failed",
    "ABNORMAL": "failed",
}

REFUSALS = frozenset({"ORDERPAID", "ORDER_CLOSED", "NOT_ENOUGH", "USER_ACCOUNT_ABNORMAL"})
"""Codes after which no money was or will be moved by the request."""


class WeChat(Provider):
    """A client of WeChat Pay's API v3 for one merchant. Its only currency is CNY."""

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
        """Create an order, and get its QR code. The shop closes it in time, so that a repeated
        request is the same as the first: WeChat then answers with the code again.
        """
        if currency != "CNY":
            raise PaymentDeclined("currency_not_supported")
        number = _number(key)
        code: str = self._ask(
            lambda client: client.pay(
                description=f"{settings.SHOP_NAME} {order}",
                out_trade_no=number,
                amount={"total": amount, "currency": currency},
                attach=f"{order} {key}",
            ),
            lambda answer: answer["code_url"],
        )
        action = Action("qr", data=code)
        return Intent(number, order, amount, currency, "requires_action", key, action)

    def capture(self, intent: str, *, key: str) -> Intent:
        """Refuse: WeChat has taken the money, or nothing is to be taken."""
        raise PaymentDeclined("nothing_to_capture")

    def cancel(self, intent: str, *, key: str) -> Intent:
        """Close an order that was not paid."""
        self._ask(lambda client: client.close(out_trade_no=intent), lambda _: None)
        return self.get(intent)

    def refund(self, intent: str, *, amount: int, key: str) -> ProviderRefund:
        """Refund money, under a number that is made from the key."""
        total = self.get(intent).amount
        return self._ask(
            lambda client: client.refund(
                out_refund_no=_number(key),
                out_trade_no=intent,
                amount={"refund": amount, "total": total, "currency": "CNY"},
            ),
            _refund,
        )

    def get(self, intent: str) -> Intent:
        """Return the present state of an order."""
        return self._ask(lambda client: client.query(out_trade_no=intent), _intent)

    def find_refund(self, intent: str, *, key: str) -> ProviderRefund | None:
        """Return the refund of the number that is made from the key."""
        try:
            number = _number(key)
            return self._ask(lambda client: client.query_refund(out_refund_no=number), _refund)
        except _NoSuchRefund:
            return None

    def verify(self, body: bytes, headers: Mapping[str, str]) -> list[Event]:
        """Check a notification's signature and age, and decrypt it."""
        # Another serial number would make the library fetch certificates for a forged call.
        if headers.get("Wechatpay-Serial") != settings.WECHAT_PUBLIC_KEY_ID:
            raise NotFromProvider
        try:
            event = self._client.callback(headers, body)
            age = database_time().timestamp() - int(headers.get("Wechatpay-Timestamp", ""))
        except Exception as error:
            raise NotFromProvider from error
        if not event or abs(age) > TOLERANCE:
            raise NotFromProvider
        try:
            return [_event(event)]
        except (LookupError, TypeError) as error:
            raise ValueError("no event") from error

    @cached_property
    def _client(self) -> WeChatPay:
        client = WeChatPay(
            wechatpay_type=WeChatPayType.NATIVE,
            mchid=settings.WECHAT_MERCHANT,
            private_key=settings.WECHAT_PRIVATE_KEY,
            cert_serial_no=settings.WECHAT_CERTIFICATE,
            appid=settings.WECHAT_APP,
            apiv3_key=settings.PSP_KEY,
            notify_url=f"{settings.PUBLIC_URL}/api/v1/webhooks/psp",
            timeout=TIMEOUT,
            public_key=settings.WECHAT_PUBLIC_KEY,
            public_key_id=settings.WECHAT_PUBLIC_KEY_ID,
        )
        if settings.PSP_URL:
            client._core._gate_way = settings.PSP_URL  # it has no argument for that
        return client

    def _ask(
        self, call: Callable[[WeChatPay], tuple[int, str]], read: Callable[[Mapping[str, Any]], T]
    ) -> T:
        """Make a call; return what is read from the document of a definite success."""
        with measured():
            try:
                status, body = call(self._client)
                document = json.loads(body) if body else {}
                code = str(document.get("code", ""))
            except Exception as error:  # no connection, no answer in time, or a wrong signature
                raise PaymentUnknown(f"WeChat Pay: {error!r}") from error
            if status in {200, 202, 204}:
                try:
                    return read(document)
                except (LookupError, TypeError) as error:
                    raise PaymentUnknown(f"WeChat Pay: {document!r}") from error
            if code in REFUSALS:
                raise PaymentDeclined(code)
            if code == "RESOURCE_NOT_EXISTS":
                raise _NoSuchRefund(code)
            raise PaymentUnknown(f"WeChat Pay: {status} {code}")


class _NoSuchRefund(PaymentUnknown):
    """WeChat knows no refund of this number."""


def _number(key: str) -> str:
    """Return the merchant's number for a key: WeChat takes 32 letters and digits."""
    return hashlib.sha256(key.encode()).hexdigest()[:32]


def _event(event: Mapping[str, Any]) -> Event:
    about: Intent | ProviderRefund | None = None
    kind, resource = str(event["event_type"]), event["resource"]
    if kind.startswith("TRANSACTION."):
        about = _intent(resource)
    elif kind.startswith("REFUND."):
        about = _refund({**resource, "status": resource["refund_status"]})
    created = datetime.fromisoformat(event["create_time"]).timestamp()
    return Event(event["id"], kind, about, created)


def _intent(found: Mapping[str, Any]) -> Intent:
    order, _, reference = str(found.get("attach", "")).partition(" ")
    return Intent(
        id=found["out_trade_no"],
        order=order_named(order),
        amount=found["amount"]["total"],
        currency=found["amount"].get("currency", "CNY"),
        status=STATES.get(found["trade_state"], "processing"),
        reference=reference,
    )


def _refund(found: Mapping[str, Any]) -> ProviderRefund:
    return ProviderRefund(
        id=found["out_refund_no"],
        intent=found["out_trade_no"],
        amount=found["amount"]["refund"],
        status=REFUND_STATES.get(found["status"], "pending"),
        currency=found["amount"].get("currency", ""),
    )
