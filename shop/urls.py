"""Which page is where."""

from django.contrib import admin
from django.urls import path

from shop import health

urlpatterns = [
    path("admin/", admin.site.urls),
    path("healthz", health.alive),
    path("readyz", health.ready),
]
