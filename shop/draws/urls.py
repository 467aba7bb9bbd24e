"""Paths of the API's calls and of the pages about draws."""

from __future__ import annotations

from django.urls import URLPattern, path

from shop.draws import api
from shop.draws import pages as draws

calls: list[URLPattern] = [
    path("sales/<int:sale>/entries", api.entries),
    path("sales/<int:sale>/entries/mine", api.show_entry),
    path("sales/<int:sale>/draw", api.show_draw),
    path("sales/<int:sale>/draw.jsonl", api.show_draw_file, name="draw-file"),
]

pages: list[URLPattern] = [
    path("sales/<int:sale>/draw/", draws.draw, name="draw"),
    path("sales/<int:sale>/draw/receipt/", draws.receipt, name="draw-receipt"),
]
