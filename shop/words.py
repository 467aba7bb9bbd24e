"""Every code and message that a buyer sees, in English and Chinese. Nowhere else are there any."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """A refusal: its HTTP status and what it says."""

    status: int
    en: str
    zh: str


PROBLEMS: dict[str, Problem] = {
    # the request
    "malformed": Problem(400, "The request cannot be read as JSON.", "请求不是有效的 JSON。"),
    "idempotency_key_missing": Problem(
        400,
        "Send an Idempotency-Key header with a UUID, and the same one when you retry.",
        "请在 Idempotency-Key 请求头中提供 UUID，重试时使用同一个值。",
    ),
    "unauthorized": Problem(401, "Send a valid buyer token.", "请提供有效的买家令牌。"),
    "wrong_credentials": Problem(401, "User name or password is wrong.", "用户名或密码错误。"),
    "not_found": Problem(404, "There is nothing here.", "没有找到您要的内容。"),
    "method_not_allowed": Problem(405, "This method is not supported here.", "不支持该请求方法。"),
    "too_large": Problem(413, "The request is too large.", "请求内容过大。"),
    "invalid_quantity": Problem(
        422, "The quantity must be a whole number from 1 to 1000.", "数量必须是 1 到 1000 的整数。"
    ),
    "invalid_request": Problem(
        422, "The request lacks something or has the wrong type.", "请求缺少参数或类型错误。"
    ),
    "idempotency_key_reused": Problem(
        422,
        "This Idempotency-Key belongs to a different purchase.",
        "该 Idempotency-Key 已用于另一笔购买。",
    ),
    # the sale
    "not_started": Problem(403, "The sale has not started yet.", "活动尚未开始。"),
    "paused": Problem(403, "The sale is paused.", "活动已暂停。"),
    "sold_out": Problem(409, "Sold out.", "已售罄。"),
    "limit_reached": Problem(
        409, "You have reached the limit for this sale.", "您已达到限购数量。"
    ),
    "ended": Problem(410, "The sale has ended.", "活动已结束。"),
    # the load
    "rate_limited": Problem(
        429, "Too many requests; please slow down.", "请求过于频繁，请稍后再试。"
    ),
    "busy": Problem(
        503, "Too many buyers at once; nothing was ordered.", "排队人数过多，未下单，请重试。"
    ),
    "outcome_unknown": Problem(
        503,
        "We cannot tell whether you got one. Retry with the same Idempotency-Key to find out.",
        "暂时无法确认是否抢购成功，请用同一个 Idempotency-Key 重试查询。",
    ),
    "internal_error": Problem(500, "Something went wrong on our side.", "服务器内部错误。"),
    # the order
    "order_awaiting_payment": Problem(409, "The order is not paid yet.", "订单尚未支付。"),
    "order_paid": Problem(409, "The order is paid already.", "订单已支付。"),
    "order_expired": Problem(
        409, "The time to pay has passed.", "订单已超时，未在规定时间内支付。"
    ),
    "order_cancelled": Problem(409, "The order was cancelled.", "订单已取消。"),
    "order_refunded": Problem(409, "The order was refunded.", "订单已退款。"),
}
"""By code. Codes are stable: clients branch on them."""


class Refusal(Exception):
    """Ends what a buyer asked for, with one of the codes above.

    Attributes:
        code: one of ``PROBLEMS``.
        more: figures that belong to it, such as what is still available.
    """

    def __init__(self, code: str, **more: int) -> None:
        super().__init__(code)
        self.code = code
        self.more = more


RETRY_AFTER = {"busy": 1, "outcome_unknown": 2, "rate_limited": 1}
"""Seconds after which a client may ask again, for the codes where that helps."""


def is_chinese(accept_language: str) -> bool:
    """Whether a client would rather read Chinese than English, by its Accept-Language header."""
    return accept_language.strip().lower().startswith("zh")


def text(code: str, *, chinese: bool) -> str:
    """What a code says."""
    problem = PROBLEMS[code]
    return problem.zh if chinese else problem.en


MAILS = {
    "confirmation": (
        "Order {order}: {quantity} × {product} / 订单 {order}：{quantity} × {product}",
        (
            "You have reserved {quantity} × {product} for {amount}.\n"
            "Please pay before {pay_before:%Y-%m-%d %H:%M} UTC; after that the order expires.\n\n"
            "您已抢到 {quantity} × {product}，金额 {amount}。\n"
            "请在 {pay_before:%Y-%m-%d %H:%M}（UTC）之前付款，逾期订单将自动取消。\n"
        ),
    ),
    "expired": (
        "Order {order} has expired / 订单 {order} 已过期",
        (
            "Order {order} ({quantity} × {product}) was not paid in time and has expired.\n\n"
            "订单 {order}（{quantity} × {product}）未在规定时间内付款，已过期。\n"
        ),
    ),
}
"""Subject and body by kind of mail; both languages, for a mail has no Accept-Language."""


def mail(kind: str, **figures: object) -> tuple[str, str]:
    """Subject and body of a mail."""
    subject, body = MAILS[kind]
    return subject.format(**figures), body.format(**figures)
