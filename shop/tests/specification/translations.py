"""What the shop says in English, and the same in Chinese; `{}` is a figure."""

BOUGHT_OR_NOT = (
    "We cannot tell yet whether your order was placed. Press the button again to check; "
    "it cannot place a second order."
)
FEWER_LEFT = "You can buy at most {} more in this sale."
CHINESE = {
    "A & <B>": "甲 & <乙>",
    "Gamma": "丙",
    "The first.": "第一个。",
    "The third.": "第三个。",
    # sales
    "On sale now": "抢购中",
    "Coming soon": "即将开始",
    "Paused": "已暂停",
    "Sold out": "已售罄",
    "All reserved, may come back": "已抢光，可能补货",
    "Ended": "已结束",
    "Starts": "开始时间",
    "Ends": "结束时间",
    "{} of {} left": "剩余 {} / {} 件",
    "Sale price": "抢购价",
    "List price": "原价",
    "{}% off": "直降 {}%",
    "Current sales": "正在抢购",
    "Upcoming sales": "即将开始",
    "Past sales": "往期活动",
    "Limit per buyer": "每人限购",
    "Sale period": "活动时间",
    "Time to pay": "付款时限",
    "{} minute": "{} 分钟",
    "{} minutes": "{} 分钟",
    "Sign in to buy": "登录后抢购",
    "Buy now": "立即抢购",
    "Not open yet": "尚未开始",
    "Clicking twice places only one order.": "重复点击只会下一单。",
    "Some orders are not final yet. Their items may go back on sale.": (
        "部分订单尚未完成，其商品可能重新上架。"
    ),
    "Cart": "购物车",
    "Buy all for {}": "全部购买，共 {}",
    "Your cart is empty.": "购物车是空的。",
    # orders
    "Order {}": "订单 {}",
    "You have no orders yet.": "您还没有订单。",
    "Awaiting payment": "待付款",
    "Paid": "已付款",
    "Expired": "已过期",
    "Cancelled": "已取消",
    "Handed over": "已交付",
    "Refund in progress": "退款中",
    "Refunded": "已退款",
    "Your order is reserved. Please pay before the deadline.": (
        "抢购成功！商品已为您保留，请在截止时间前付款。"
    ),
    "Payment received. Thank you for your purchase!": "付款成功，感谢您的购买！",
    "This order was not paid in time and has expired.": "订单未在规定时间内付款，已过期。",
    "You cancelled this order.": "您已取消此订单。",
    "Your order has been handed over. Enjoy!": "商品已交付，祝您使用愉快！",
    "You returned this order. Your refund is in progress.": "您已退货，款项将原路退回。",
    "You returned this order, and your payment has been refunded.": "您已退货，款项已原路退回。",
    "Product": "商品",
    "Quantity": "数量",
    "Amount": "金额",
    "Amount refunded": "已退款金额",
    "Ordered on": "下单时间",
    "Pay before": "付款截止",
    "{}, of which {} cancelled or returned": "{} 件，其中已取消或退货 {} 件",
    "Order placed": "已下单",
    "Paid after the deadline; the items were still available": (
        "超时付款，商品仍有库存，已为您保留"
    ),
    "Not paid in time": "超时未付款",
    "Returned": "已退货",
    "Refund complete": "退款完成",
    "Payment failed; you were not charged": "付款失败，未扣款",
    "Partly cancelled": "已取消部分商品",
    "Partly returned": "已退回部分商品",
    "Paid too late or too much; the excess will be refunded": "付款过迟或多付，多付款项将退回",
    "Money refunded": "款项已退回",
    "The refund failed; we are looking into it": "退款未成功，我们正在处理",
    "Pay {}": "支付 {}",
    "Cancel order": "取消订单",
    "Cancel some": "取消部分",
    "Return for a refund": "退货退款",
    "Return some": "退回部分",
    "Being confirmed": "确认中",
    "Confirmed": "已确认",
    "We are confirming your order.": "我们正在确认您的订单。",
    "Your order is confirmed. Thank you!": "您的订单已确认，感谢您的购买！",
    "This order was not confirmed in time and has expired.": "此订单未能及时确认，已过期。",
    "You returned this order.": "您已退货。",
    "Not confirmed in time": "未能及时确认",
    "Return complete": "退货完成",
    "Return": "退货",
    # refusals
    "The form has expired": "表单已失效",
    "This page was out of date. Please try again.": "页面已过期，请重试。",
    "There are not enough items left right now. Some orders are not final yet; their items may go "
    "back on sale.": "库存暂时不足。部分订单尚未完成，其商品可能重新上架。",
    "The payment provider has not answered yet. Please try again in a moment. You will not be "
    "charged or refunded twice.": "支付服务暂未响应，请稍后再试。不会重复扣款，也不会重复退款。",
    "The quantity must be a whole number from 1 to 1000.": "数量必须是 1 到 1000 之间的整数。",
    "A cart must contain 1 to 20 lines, each for a different sale and all in the same currency.": (
        "购物车须包含 1 到 20 项商品，每个活动只能出现一次，且币种须相同。"
    ),
    "This sale has not started yet.": "活动尚未开始。",
    "This sale is paused.": "活动已暂停。",
    "Sold out.": "已售罄。",
    "You have reached the purchase limit for this sale.": "您已达到本活动的限购数量。",
    "This sale has ended.": "活动已结束。",
    "Too many requests. Please wait a moment and try again.": "请求过于频繁，请稍后再试。",
    FEWER_LEFT: "本活动您最多还能购买 {} 件。",
    BOUGHT_OR_NOT: "暂时无法确认是否下单成功。请再次点击按钮查询，不会重复下单。",
    "This order has not been paid yet.": "订单尚未付款。",
    "This order has already been paid.": "订单已付款。",
    "The payment deadline for this order has passed.": "订单已超过付款时限。",
    "This order has been cancelled.": "订单已取消。",
    "This order has already been handed over.": "订单已交付。",
    "This order was returned, and its refund is in progress.": "订单已退货，正在退款。",
    "This order has been refunded.": "订单已退款。",
    "The payment was declined. You were not charged.": "付款被拒绝，未产生扣款。",
    # mails
    "Order {number} is confirmed": "订单 {number} 已确认",
    "Thank you for your order!": "感谢您的购买！",
    "The order was not confirmed in time.": "订单未能及时确认。",
    "Order {number} has been returned": "订单 {number} 已退货",
    "Order": "订单",
    "Total": "合计",
    "Pay now": "立即付款",
    "View your order": "查看订单",
    "You receive this email because of your order with us.": (
        "您收到此邮件，是因为您在本店下过单。"
    ),
    "Reserved for you: {contents}": "抢购成功：{contents}",
    "We are holding your order until {deadline}. Please pay before then; otherwise the order "
    "expires.": "商品将为您保留至 {deadline}，请在此之前付款。逾期未付款，订单将自动取消。",
    "Order {number} is paid": "订单 {number} 已付款",
    "We have received your payment. Thank you for your purchase!": (
        "我们已收到您的付款，感谢您的购买！"
    ),
    "Order {number} has expired": "订单 {number} 已过期",
    "The order was not paid in time. You were not charged.": (
        "订单未在规定时间内付款，未产生任何扣款。"
    ),
    "Order {number} has been refunded": "订单 {number} 已退款",
    "We are refunding your payment for order {number}": "订单 {number} 的付款将退回",
    "Your payment arrived when it could no longer be used in full: either the deadline had passed "
    "and everything was sold, or you had already cancelled. We refund the excess automatically; "
    "you do not need to do anything.": (
        "您的付款到账时已无法全部使用：付款时限已过且商品已售罄，或您已取消订单。"
        "多付的款项将自动原路退回，您无需任何操作。"
    ),
}
