"""URLs of the shop."""

from django.conf import settings
from django.contrib import admin
from django.urls import include, path

from shop.operating import health
from shop.pages import urls as pages

urlpatterns = [
    # First, because it gets a thousand times as many requests as the others together.
    path("api/v1/", include("shop.api.urls")),
    path("", include(pages.urlpatterns if settings.SHOP_PAGES else pages.without_pages)),
    path("admin/", admin.site.urls),
    path("healthz", health.live),
    path("livez", health.live),
    path("readyz", health.ready),
]

handler404 = "shop.pages.refusals.not_found"
handler500 = "shop.pages.refusals.server_error"
