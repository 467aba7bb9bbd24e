"""Every code and message that a buyer sees, in English and Chinese. Nowhere else are there any."""

from __future__ import annotations

from collections.abc import Iterable
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
    "bad_signature": Problem(
        401, "This is not signed by the payment provider.", "请求签名无效或已过期。"
    ),
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
    "invalid_cart": Problem(
        422,
        "A cart has 1 to 20 lines, each of another sale, all in one currency.",
        "购物车须包含 1 到 20 行商品，每个活动只能出现一次，且币种须相同。",
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
        "We cannot tell yet what came of it. Send the same request again to find out, with the "
        "same Idempotency-Key if it had one.",
        "暂时无法确认结果，请重新发送同一请求查询（如有 Idempotency-Key，请使用同一个值）。",
    ),
    "not_yet": Problem(
        503,
        "This is about something not written down yet; tell again.",
        "相关记录尚未写入，请稍后重试。",
    ),
    "internal_error": Problem(500, "Something went wrong on our side.", "服务器内部错误。"),
    # the order
    "order_awaiting_payment": Problem(409, "The order is not paid yet.", "订单尚未支付。"),
    "order_paid": Problem(409, "The order is paid already.", "订单已支付。"),
    "order_expired": Problem(
        409, "The time to pay has passed.", "订单已超时，未在规定时间内支付。"
    ),
    "order_cancelled": Problem(409, "The order was cancelled.", "订单已取消。"),
    "order_fulfilled": Problem(409, "The order was handed over already.", "订单已完成交付。"),
    "order_refund_pending": Problem(
        409, "The order was returned; the money is on its way back.", "订单已退货，正在退款。"
    ),
    "order_refunded": Problem(409, "The order was refunded.", "订单已退款。"),
    "payment_declined": Problem(
        409, "The payment was declined; nothing was charged.", "付款被拒绝，未产生扣款。"
    ),
}
"""By code. Codes are stable: clients branch on them."""


class Refusal(Exception):
    """Ends what a buyer asked for, with one of the codes above.

    Attributes:
        code: one of ``PROBLEMS``.
        detail: what exactly is wrong, for the client's programmer.
        more: figures that belong to it, such as what is still available.
    """

    def __init__(self, code: str, *, detail: str = "", **more: int) -> None:
        super().__init__(code)
        self.code = code
        self.detail = detail
        self.more = more


RETRY_AFTER = {"busy": 1, "outcome_unknown": 2, "rate_limited": 1, "not_yet": 1}
"""Seconds after which a client may ask again, for the codes where that helps."""


def is_chinese(accept_language: str) -> bool:
    """Whether a client would rather read Chinese than English, by its Accept-Language header."""
    return accept_language.strip().lower().startswith("zh")


def text(code: str, *, chinese: bool) -> str:
    """What a code says."""
    problem = PROBLEMS[code]
    return problem.zh if chinese else problem.en


@dataclass(frozen=True, slots=True)
class Text:
    """What a page says; ``{name}`` stands for a value."""

    en: str
    zh: str

    def with_values(self, **values: object) -> Text:
        """The same with its braces filled in."""
        return Text(self.en.format(**values), self.zh.format(**values))


@dataclass(frozen=True, slots=True)
class MailText:
    """What a mail says. The heading is its subject as well."""

    heading: Text
    body: Text


MAILS = {
    "confirmation": MailText(
        Text("It is yours: {what}", "抢购成功：{what}"),
        Text(
            "We keep it for you until {pay_before}. Please pay before then; after that the order "
            "expires and somebody else may have it.",
            "商品将为您保留至 {pay_before}，请在此之前付款。逾期订单将自动取消，商品重新上架。",
        ),
    ),
    "paid": MailText(
        Text("Order {order} is paid", "订单 {order} 已付款"),
        Text(
            "We have received your payment. Thank you!",
            "我们已收到您的付款，感谢您的购买！",
        ),
    ),
    "expired": MailText(
        Text("Order {order} has expired", "订单 {order} 已过期"),
        Text(
            "It was not paid in time, so it went back on sale. Nothing was charged.",
            "订单未在规定时间内付款，商品已重新上架，未产生任何扣款。",
        ),
    ),
    "refunded": MailText(
        Text("Order {order} is refunded", "订单 {order} 已退款"),
        Text(
            "You returned it, and your money is back.",
            "您已退货，款项已原路退回。",
        ),
    ),
    "money_owed": MailText(
        Text("Your payment for order {order} goes back", "订单 {order} 的付款将退回"),
        Text(
            "Your payment came when it could no longer be used in full: the time to pay had passed "
            "and everything was sold, or you had cancelled. What is too much goes back to you by "
            "itself; there is nothing that you need to do.",
            "您的付款到账时已无法全部使用：付款时限已过且商品售罄，或订单已被您取消。"
            "多付的款项将自动原路退回，您无需任何操作。",
        ),
    ),
}
"""By kind of mail. A mail says it in both languages, for it has no Accept-Language."""

MAIL_LABELS = {
    "shop": Text("Flash sale", "限时抢购"),
    "order": Text("Order", "订单"),
    "total": Text("Total", "合计"),
    "pay_before": Text("Pay before", "付款截止"),
    "refunded": Text("Given back", "已退款"),
    "pay": Text("Pay now", "立即付款"),
    "look": Text("See your order", "查看订单"),
    "why": Text(
        "You get this mail because of your order with us.", "您收到此邮件，是因为您在本店下过单。"
    ),
}
"""What else stands in a mail."""


def listing(lines: Iterable[tuple[int, str]]) -> str:
    """What an order is of, from the quantity and the product of each line."""
    return ", ".join(f"{quantity} × {product}" for quantity, product in lines)


PAGES: dict[str, Text] = {
    # every page
    "shop": Text("Flash sale", "限时抢购"),
    "motto": Text("Sold out, never oversold.", "抢得完，绝不超卖。"),
    "skip_to_content": Text("Skip to content", "跳到正文"),
    "main_navigation": Text("Main", "主导航"),
    "language": Text("Language", "语言"),
    "sales": Text("Sales", "活动"),
    "my_orders": Text("My orders", "我的订单"),
    "account": Text("Account", "账户"),
    "admin": Text("Admin", "管理后台"),
    "api_docs": Text("API documentation", "API 文档"),
    "sign_in": Text("Sign in", "登录"),
    "sign_up": Text("Sign up", "注册"),
    "sign_out": Text("Sign out", "退出"),
    # sales
    "on_now": Text("On now", "正在抢购"),
    "coming_up": Text("Coming up", "即将开始"),
    "over": Text("Gone", "已结束"),
    "no_sales": Text("There are no sales at the moment. Come back soon.", "暂无活动，敬请期待。"),
    "status_open": Text("On sale now", "抢购中"),
    "status_not_started": Text("Coming up", "即将开始"),
    "status_paused": Text("Paused", "已暂停"),
    "status_sold_out": Text("Sold out", "已售罄"),
    "status_may_come_back": Text("All taken, may come back", "已抢光，可能补货"),
    "status_ended": Text("Ended", "已结束"),
    "starts_in": Text("Starts in", "距开始"),
    "ends_in": Text("Ends in", "距结束"),
    "days": Text("d", "天"),
    "left": Text("{available} of {total} left", "剩余 {available} / {total} 件"),
    "price": Text("Sale price", "抢购价"),
    "list_price": Text("List price", "原价"),
    "discount": Text("{percent}% off", "直降 {percent}%"),
    "limit": Text("Limit per buyer", "每人限购"),
    "window": Text("Sale window", "活动时间"),
    "time_to_pay": Text("Time to pay", "付款时限"),
    "minutes": Text("{minutes} minutes", "{minutes} 分钟"),
    "strategy": Text("Selling strategy", "售卖策略"),
    "until": Text("to", "至"),
    "back_to_sales": Text("All sales", "全部活动"),
    # buying
    "buy": Text("Buy now", "立即抢购"),
    "buying": Text("Ordering …", "正在下单……"),
    "not_open_yet": Text("Opens soon", "尚未开始"),
    "sign_in_to_buy": Text("Sign in to buy", "登录后抢购"),
    "quantity": Text("Quantity", "数量"),
    "safe_to_click_twice": Text("Clicking twice orders once.", "重复点击只会下一单。"),
    "opens_by_itself": Text(
        "The button works the moment the sale opens; there is no need to reload.",
        "活动开始的瞬间按钮即可使用，无需刷新。",
    ),
    "page_reloads": Text("This page reloads when the sale opens.", "活动开始时页面会自动刷新。"),
    "may_come_back": Text(
        "Some orders are not paid yet. What is not paid for in time comes back here.",
        "还有订单未付款，超时未付款的商品会重新上架。",
    ),
    "gone_for_now": Text(
        "Not enough are left for now. Some orders are not paid yet: "
        "what is not paid for in time comes back.",
        "库存暂时不足。还有订单未付款，超时未付款的商品会重新上架。",
    ),
    "you_bought": Text("Your orders in this sale", "您在本活动的订单"),
    "now_open": Text("The sale is open.", "活动已开始。"),
    "seconds_to_go": Text("{seconds} seconds to go.", "还有 {seconds} 秒。"),
    "unknown_try_again": Text(
        "We cannot tell yet whether you got one. Press the button again to find out: "
        "it is the same purchase and cannot order twice.",
        "暂时无法确认是否抢购成功。请再次点击按钮查询：这是同一笔购买，不会重复下单。",
    ),
    "stale_form": Text("This page was out of date. Please try again.", "页面已过期，请重试。"),
    # the cart
    "cart": Text("Cart", "购物车"),
    "add_to_cart": Text("Or put it into the cart", "或加入购物车"),
    "empty_cart": Text("Your cart is empty.", "购物车是空的。"),
    "change": Text("Change", "修改"),
    "remove": Text("Remove", "移除"),
    "total": Text("Total", "合计"),
    "buy_all": Text("Buy all for {total}", "全部购买 {total}"),
    "all_or_nothing": Text(
        "You get all of it, or nothing is ordered.", "要么全部抢到，要么不下单。"
    ),
    "whole_cart_stays": Text(
        "stands in the way; nothing was ordered. Change or remove it and try again.",
        "无法购买，因此未下单。请修改或移除后重试。",
    ),
    # orders
    "order": Text("Order", "订单"),
    "product": Text("Product", "商品"),
    "order_number": Text("Order {number}", "订单 {number}"),
    "no_orders": Text("You have not ordered anything yet.", "您还没有订单。"),
    "ordered": Text("Ordered", "下单时间"),
    "amount": Text("Amount", "金额"),
    "status": Text("Status", "状态"),
    "pay_before": Text("Pay before", "付款截止"),
    "pay_within": Text("Time left to pay", "剩余付款时间"),
    "pay": Text("Pay {amount}", "支付 {amount}"),
    "cancel": Text("Cancel the order", "取消订单"),
    "refund": Text("Return for a refund", "申请退款"),
    "newer": Text("Newer", "较新"),
    "older": Text("Older", "较早"),
    "pages_of_orders": Text("Pages", "分页"),
    "order_awaiting_payment": Text("Awaiting payment", "待付款"),
    "order_paid": Text("Paid", "已付款"),
    "order_expired": Text("Expired", "已过期"),
    "order_cancelled": Text("Cancelled", "已取消"),
    "order_fulfilled": Text("Handed over", "已交付"),
    "order_refund_pending": Text("Refund on its way", "退款中"),
    "order_refunded": Text("Refunded", "已退款"),
    "about_awaiting_payment": Text(
        "It is yours. It is kept for you until the time to pay has passed.",
        "抢购成功！商品已为您保留，请在截止时间前付款。",
    ),
    "about_paid": Text("Paid. Thank you.", "付款成功，感谢您的购买。"),
    "about_expired": Text(
        "It was not paid in time, so it went back on sale.", "未在规定时间内付款，商品已重新上架。"
    ),
    "about_cancelled": Text("You cancelled this order.", "您已取消此订单。"),
    "about_fulfilled": Text("You have it. Enjoy!", "商品已交付，祝您使用愉快！"),
    "about_refund_pending": Text(
        "You returned this order; your money is on its way back.", "您已退货，款项将原路退回。"
    ),
    "about_refunded": Text(
        "You returned this order, and your money is back.", "您已退货，款项已原路退回。"
    ),
    "payment_under_way": Text(
        "The payment is under way; this page will show when it has arrived.",
        "付款处理中，到账后本页会显示结果。",
    ),
    "unknown_look_again": Text(
        "The payment provider has not answered yet. Please try again in a moment: nothing is "
        "charged or refunded twice.",
        "支付服务暂未响应，请稍后再试：不会重复扣款或重复退款。",
    ),
    "refunded_so_far": Text("Refunded", "已退款金额"),
    "given_back": Text(
        "{quantity}, of which {returned} given back", "{quantity}，其中已退 {returned}"
    ),
    "cancel_some": Text("Cancel some", "取消部分"),
    "return_some": Text("Return some", "部分退货"),
    # the timeline of an order
    "timeline": Text("What happened", "订单动态"),
    "event_opened": Text("Ordered", "已下单"),
    "event_paid": Text("Paid", "已付款"),
    "event_paid_late": Text(
        "Paid after the time had passed; there was still one for you", "超时付款，商品仍为您留出"
    ),
    "event_fulfilled": Text("Handed over", "已交付"),
    "event_expired": Text("Not paid in time", "超时未付款"),
    "event_cancelled": Text("Cancelled", "已取消"),
    "event_returned": Text("Returned", "已退货"),
    "event_refunded": Text("Refund complete", "退款完成"),
    "event_payment_failed": Text("Payment failed; nothing was charged", "付款失败，未扣款"),
    "event_part_cancelled": Text("Part of it cancelled", "已取消部分商品"),
    "event_part_returned": Text("Part of it returned", "已退回部分商品"),
    "event_money_owed": Text(
        "Paid too late or too much; the money goes back", "付款过迟或多付，款项将退回"
    ),
    "event_money_back": Text("Money given back", "款项已退回"),
    "event_refund_failed": Text(
        "The money could not be given back; we are looking into it", "退款未成功，我们正在处理"
    ),
    "mails": Text("Mails about this order", "订单相关邮件"),
    "about_mails": Text(
        "The demo sends no mail; these are the ones that it would have sent.",
        "演示环境不会真正发送邮件，以下为本应发送的邮件。",
    ),
    "no_mails": Text("None yet.", "暂无邮件。"),
    "mail_sent": Text("Sent", "发送时间"),
    "mail_waits": Text("Waits to be sent", "等待发送"),
    "mail_to": Text("To", "收件人"),
    "mail_as_text": Text("As plain text", "纯文本版本"),
    # accounts
    "no_account": Text("No account yet?", "还没有账户？"),
    "have_account": Text("Have an account?", "已有账户？"),
    "signed_in_as": Text("Signed in as {user}", "当前用户：{user}"),
    "buyer_token": Text("Buyer token", "买家令牌"),
    "about_token": Text(
        "Lets a program buy in your name through the API, for a day. Keep it to yourself.",
        "程序可凭此令牌通过 API 以您的名义购买，一天内有效。请勿泄露。",
    ),
    "make_token": Text("Make a token", "生成令牌"),
    "copy": Text("Copy", "复制"),
    "copied": Text("Copied", "已复制"),
    "example": Text("Example", "示例"),
    # documentation of the API
    "docs_need_javascript": Text(
        "The browsable documentation needs JavaScript; here is the plain description.",
        "浏览文档需要 JavaScript，也可直接查看描述文件。",
    ),
    "problem_codes": Text("Problem codes", "错误代码"),
    "code": Text("Code", "代码"),
    "meaning": Text("Meaning", "含义"),
    # when it goes wrong
    "error_400": Text("We did not understand that", "无法理解该请求"),
    "about_400": Text(
        "Something about the request was wrong. Please go back and try again.",
        "请求有误，请返回重试。",
    ),
    "error_403": Text("This is not open to you", "没有访问权限"),
    "about_403": Text("You may need to sign in as somebody else.", "您可能需要更换账户登录。"),
    "error_csrf": Text("The form was too old", "表单已失效"),
    "about_csrf": Text(
        "For your safety nothing was done. Go back, reload the page and try again; "
        "cookies must be allowed.",
        "为了您的安全，未执行任何操作。请返回并刷新页面后重试，并确认已允许 Cookie。",
    ),
    "error_404": Text("There is nothing here", "页面不存在"),
    "about_404": Text("It may be gone, or the address is wrong.", "内容可能已下架，或地址有误。"),
    "error_500": Text("Something went wrong on our side", "服务器出错了"),
    "about_500": Text(
        "If you were buying, reload this page: it asks for the same purchase again and cannot "
        "order twice. Or look at your orders.",
        "如果您正在抢购，请刷新本页：会再次提交同一笔购买，不会重复下单。也可以查看“我的订单”。",
    ),
    "error_503": Text("We are short of breath", "服务暂时不可用"),
    "about_503": Text(
        "Please reload this page in a moment. If you were buying, it asks for the same purchase "
        "again and cannot order twice.",
        "请稍后刷新本页。如果您正在抢购，会再次提交同一笔购买，不会重复下单。",
    ),
}
"""What pages say, by name."""


MAY_COME_BACK = Text(
    "Some orders are not paid yet. What is not paid for in time goes back on sale.",
    "还有订单未付款，超时未付款的商品会重新上架。",
)
"""The detail of ``sold_out`` while unpaid reservations are out."""


IN_PLACE_OF = {
    "idempotency_key_missing": "stale_form",
    "idempotency_key_reused": "stale_form",
    "outcome_unknown": "unknown_try_again",
}
"""Codes whose message speaks of headers, and what a page says instead."""

IN_BROWSER = (
    *("status_open", "status_not_started", "status_paused", "status_ended"),
    *("status_sold_out", "status_may_come_back"),
    *("starts_in", "ends_in", "days", "left", "buy", "buying"),
    *("now_open", "safe_to_click_twice", "may_come_back", "seconds_to_go", "copied"),
)
"""The texts that the pages' script writes."""


def say(name: str, *, chinese: bool, **values: object) -> str:
    """What a page says.

    Args:
        name: one of ``PAGES``.
        chinese: in Chinese rather than English.
        values: what the text's braces stand for.
    """
    page_text = PAGES[name]
    return (page_text.zh if chinese else page_text.en).format(**values)


def refusal(code: str, *, chinese: bool, may_come_back: int = False, **_: int) -> str:
    """What a page says about a code: its reader has a button to press, and no header to send.

    Args:
        code: one of ``PROBLEMS``.
        chinese: in Chinese rather than English.
        may_come_back: orders are not paid whose units may go back on sale.
    """
    if may_come_back:
        return say("gone_for_now", chinese=chinese)
    if code in IN_PLACE_OF:
        return say(IN_PLACE_OF[code], chinese=chinese)
    return text(code, chinese=chinese)
