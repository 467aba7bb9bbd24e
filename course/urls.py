"""URLs of the lock lab."""

from django.urls import path

from course import views

urlpatterns = [
    path("", views.index, name="locks"),
    path("class/", views.classroom, name="lock-class"),
    path("<slug:lesson>/mine/", views.mine, name="lock-mine"),
    path("<slug:lesson>/<slug:scenario>/", views.scenario, name="lock-scenario"),
    path("<slug:lesson>/<slug:scenario>/broken/", views.broken, name="lock-broken"),
    path("<slug:lesson>/<slug:scenario>/at/", views.at, name="lock-position"),
]
