"""The provider's page for a buyer: the amount, and what to do about it.

`GET /pay/<id>` shows it, and `POST` takes the buyer's `choice`: `pay`; `ask`, for the question of
the buyer's bank (3-D Secure), which is then shown; `decline`, as the bank would; or `leave`. Then
the buyer goes back to the shop's page. A program that plays a buyer posts the choice.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from babel.numbers import format_currency
from django.template import Context, Engine

from development.psp.books import Books
from shop.money import to_major

TEMPLATE = Engine().from_string(
    Path(__file__).with_name("checkout.html").read_text(encoding="utf-8")
)

MAX_FORM = 1000
"""Bytes of a form at most."""

TEXTS = {
    "en": {
        "language": "en",
        "title": "Demo Pay",
        "order": "Order",
        "note": "This is a fake payment provider. It moves no money.",
        "pay": "Pay",
        "ask": "Pay, and let my bank ask me first",
        "decline": "Let my bank decline",
        "leave": "Leave without paying",
        "bank": "Your bank asks: do you want to pay this amount?",
        "yes": "Yes, that is me",
        "no": "No, decline",
        "over": "Nothing can be paid here any more.",
        "back": "Back to the shop",
    },
    "zh": {
        "language": "zh-Hans",
        "title": "演示支付",
        "order": "订单",
        "note": "这是模拟的支付服务商，不会产生真实扣款。",
        "pay": "支付",
        "ask": "支付，并先由银行验证",
        "decline": "让银行拒绝付款",
        "leave": "不付款，离开",
        "bank": "您的银行询问：是否确认支付这笔金额？",
        "yes": "是的，是我本人",
        "no": "不，拒绝",
        "over": "此处已无法付款。",
        "back": "返回商店",
    },
}


class Shown(NamedTuple):
    """An answer."""

    status: int
    body: bytes = b""
    location: str = ""
    kind: str = "text/html; charset=utf-8"


def respond(books: Books, environ: dict[str, Any], intent_id: str) -> Shown:
    """Answer a buyer's request.

    Raises:
        NoSuchIntent: no payment has this id.
    """
    intent = books.intent(intent_id)
    choice = ""
    if environ["REQUEST_METHOD"] == "POST":
        form = parse_qs(environ["wsgi.input"].read(MAX_FORM).decode("latin-1"))
        choice = form.get("choice", [""])[0]
    if choice in {"pay", "decline"}:
        books.authorise(intent_id, agrees=choice == "pay")
        intent = books.intent(intent_id)
    if choice in {"pay", "decline", "leave"} and intent["return_url"]:
        return Shown(303, location=intent["return_url"])
    texts = TEXTS["zh" if _reads_chinese(environ) else "en"]
    context = {
        **texts,
        "number": intent["order"],
        "amount": format_currency(
            to_major(intent["amount"], intent["currency"]),
            intent["currency"],
            locale="zh_Hans" if texts is TEXTS["zh"] else "en",
            decimal_quantization=False,
        ),
        "asked": choice == "ask",
        "open": books.is_open(intent),
        "return_url": intent["return_url"],
    }
    return Shown(200, TEMPLATE.render(Context(context, use_l10n=False)).encode())


def _reads_chinese(environ: dict[str, Any]) -> bool:
    """Return whether the buyer reads Chinese: as chosen in the shop, whose cookies for this host a
    browser sends along, or else as the browser says.
    """
    cookies = environ.get("HTTP_COOKIE", "")
    if "django_language=" in cookies:
        return "django_language=zh" in cookies
    return str(environ.get("HTTP_ACCEPT_LANGUAGE", "")).lower().startswith("zh")
