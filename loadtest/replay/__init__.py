"""Slow motion: every request of a run as a dot on its way through the shop, at 1/100 of its speed.

    marks = find_marks(verdict, histories, final="final.snapshot")
    write_page("replay.html", compose(histories, title="A run", marks=marks))

A replay is one JSON document (`document.py`). The player in `player/` reads it in three places: the
report of a run with a broken property, a page of its own, and the demo's page `/room/replay/`. What
the shop did between a request and its answer is in it if the shop recorded that (`served.py`).
"""

from loadtest.replay.document import MOST, ReplayFault, compose, dump
from loadtest.replay.marks import Mark, find_marks, first_beyond, units_for_sale
from loadtest.replay.page import SCRIPTS, player_css, player_js, write_page
from loadtest.replay.served import ServedError, read_served

__all__ = [
    "MOST",
    "SCRIPTS",
    "Mark",
    "ReplayFault",
    "ServedError",
    "compose",
    "dump",
    "find_marks",
    "first_beyond",
    "player_css",
    "player_js",
    "read_served",
    "units_for_sale",
    "write_page",
]
