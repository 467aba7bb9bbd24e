"""URLs of the provider's page and API."""

from django.urls import path

from lab.psp import page, views

urlpatterns = [
    path("", page.payments),
    path("v1/payment_intents", views.intents),
    path("v1/payment_intents/<str:intent>/capture", views.capture),
    path("v1/payment_intents/<str:intent>/cancel", views.cancel),
    path("v1/refunds", views.refunds),
    path("v1/ledger", views.ledger),
    path("v1/behaviour", views.conduct),
    path("healthz", views.alive),
]
