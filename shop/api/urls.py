"""The calls of the API."""

from django.conf import settings
from django.urls import path

from shop.api import views, webhooks

urlpatterns = [
    path("sales/<int:sale>/orders", views.place_order),
    path("sales/<int:sale>", views.show_sale),
    path("orders", views.place_cart),
    path("orders/<int:order>", views.show_order),
    path("orders/<int:order>/payment", views.pay_order),
    path("orders/<int:order>/cancel", views.cancel_order),
    path("orders/<int:order>/refund", views.refund_order),
    path("tokens", views.make_token),
]
if settings.PAYMENT_PROVIDER:
    urlpatterns.append(path("webhooks/psp", webhooks.receive_webhook))
