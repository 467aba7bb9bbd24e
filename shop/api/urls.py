"""The calls of the API."""

from django.urls import path

from shop.api import demo, views, webhooks

urlpatterns = [
    path("sales/<int:sale>/orders", views.place_order),
    path("sales/<int:sale>", views.show_sale),
    path("orders", views.place_cart),
    path("orders/<int:order>", views.show_order),
    path("orders/<int:order>/payment", views.pay_order),
    path("orders/<int:order>/cancel", views.cancel_order),
    path("orders/<int:order>/refund", views.refund_order),
    path("webhooks/psp", webhooks.receive_webhook),
    path("tokens", views.make_token),
    path("demo/buyers", demo.make_buyers),
    path("demo/strategies", demo.list_strategies),
    path("demo/sales", demo.make_sale),
    path("demo/sales/<int:sale>/restock", demo.restock_sale),
    path("demo/sales/<int:sale>/figures", demo.show_figures),
    path("demo/sales/<int:sale>/snapshot", demo.show_snapshot),
    path("demo/sales/<int:sale>/ledger", demo.show_ledger),
]
