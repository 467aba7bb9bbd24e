"""The shop's URLs, and the demo's own calls before them."""

from django.urls import include, path

from lab.demo import api, pages
from lab.room import views

urlpatterns = [
    path(
        "api/v1/demo/",
        include(
            [
                path("buyers", api.make_buyers),
                path("sessions", api.make_session),
                path("strategies", api.list_strategies),
                path("sales", api.make_sale),
                path("sales/<int:sale>/restock", api.restock_sale),
                path("sales/<int:sale>/terms", api.change_terms),
                path("sales/<int:sale>/figures", api.show_figures),
                path("sales/<int:sale>/snapshot", api.show_snapshot),
                path("sales/<int:sale>/ledger", api.show_ledger),
                path("sales/<int:sale>/deliveries", api.show_deliveries),
            ]
        ),
    ),
    path("orders/<int:order>/mails/", pages.mails, name="mails"),
    path("orders/<int:order>/mails/<slug:kind>/", pages.mail, name="mail"),
    path("docs/site/<path:path>", pages.documentation),
    path("docs/site/", pages.documentation, {"path": ""}),
    path("locks/", include("course.urls")),
    path("room/", views.room, name="room"),
    path("room/token", views.token, name="room-token"),
    path("duel/", views.duel, name="duel"),
    path("stage/", pages.stage, name="stage"),
    path("stage/sign-in/", pages.sign_in_as, name="stage-sign-in"),
    path("stage/again/", pages.show_again, name="stage-again"),
    path("", include("shop.urls")),
]

handler404 = "shop.pages.refusals.not_found"
handler500 = "shop.pages.refusals.server_error"
