"""URLs of the shop: the API, the pages, the admin, and what probes ask."""

from django.apps import apps
from django.conf import settings
from django.contrib import admin
from django.contrib.auth.views import (
    LogoutView,
    PasswordResetCompleteView,
    PasswordResetDoneView,
    PasswordResetView,
)
from django.shortcuts import redirect
from django.templatetags.static import static
from django.urls import include, path
from django.utils.module_loading import import_string
from django.views.generic import RedirectView
from django.views.i18n import set_language

from shop.api import views
from shop.operating import health
from shop.pages import accounts, carts, docs, orders, sales

calls = [
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
    calls.append(path("webhooks/psp", views.receive_webhook))
if apps.is_installed("shop.draws"):
    calls += import_string("shop.draws.urls.calls")


documentation = [
    path("api/docs", docs.browse, name="api-docs"),
    path("api/v1/openapi.json", docs.openapi, name="openapi"),
    # The static file's name contains a hash in production.
    path("favicon.ico", lambda _: redirect(static("shop/favicon.svg"))),
]

pages = [
    path("", sales.home, name="home"),
    path("sales/<int:sale>/", sales.sale, name="sale"),
    path("cart/", carts.cart, name="cart"),
    path("cart/<int:sale>/", carts.change, name="cart-line"),
    path("orders/", orders.mine, name="orders"),
    path("orders/<int:order>/", orders.order, name="order"),
    path("orders/<int:order>/payment/", orders.pay, name="pay"),
    path("orders/<int:order>/cancel/", orders.cancel, name="cancel"),
    path("orders/<int:order>/refund/", orders.refund, name="refund"),
    path("sign-in/", accounts.SignIn.as_view(), name="sign-in"),
    path("sign-up/", accounts.SignUp.as_view(), name="sign-up"),
    path("sign-out/", LogoutView.as_view(), name="sign-out"),
    path("account/", accounts.account, name="account"),
    path("account/address/", accounts.change_address, name="change-address"),
    path("language/", set_language, name="language"),
    *documentation,
]

if apps.is_installed("shop.draws"):
    pages += import_string("shop.draws.urls.pages")

if settings.PUBLIC_URL:
    # Else a link would be made from the request's `Host`, and could be made to lead elsewhere.
    # Named as Django's views name each other.
    page = {"template_name": "shop/password_reset.html"}
    ask = PasswordResetView.as_view(form_class=accounts.AskForm, **page)
    sent = PasswordResetDoneView.as_view(extra_context={"said": "sent"}, **page)
    done = PasswordResetCompleteView.as_view(extra_context={"said": "done"}, **page)
    choose = accounts.Choose.as_view(**page)
    pages += [
        path("confirm-address/<token>/", accounts.confirm_address, name="confirm-address"),
        path("password-reset/", ask, name="password_reset"),
        path("password-reset/sent/", sent, name="password_reset_done"),
        path("password-reset/done/", done, name="password_reset_complete"),
        path("password-reset/<uidb64>/<token>/", choose, name="password_reset_confirm"),
    ]

without_pages = [
    path("", RedirectView.as_view(pattern_name="api-docs"), name="home"),
    *documentation,
]
"""What a shop has without its pages (`SHOP_PAGES=0`)."""

urlpatterns = [
    # First, because it gets a thousand times as many requests as the others together.
    path("api/v1/", include(calls)),
    path("", include(pages if settings.SHOP_PAGES else without_pages)),
    path("admin/", admin.site.urls),
    path("healthz", health.live),
    path("livez", health.live),
    path("readyz", health.ready),
]

handler404 = "shop.pages.refusals.not_found"
handler500 = "shop.pages.refusals.server_error"
