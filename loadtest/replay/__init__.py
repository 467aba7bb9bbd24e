"""Slow motion: every request of a run as a dot on its way through the shop, at 1/100 of its speed.

    write_page("replay.html", compose(RunFiles(folder), title="A run", marks=marks_of(verdict)))

A replay is one JSON document (`document.py`). The player in `player/` reads it in three places: the
report of a run with a broken property, a page of its own, and the demo's page `/room/replay/`. What
the shop did between a request and its answer is in it if the shop recorded that.
"""

from loadtest.replay.document import (
    Mark,
    ServedError,
    compose,
    dump,
    first_beyond,
    marks_of,
    read_served,
    units_for_sale,
)
from loadtest.replay.page import SCRIPTS, player_css, player_js, write_page

__all__ = [
    "SCRIPTS",
    "Mark",
    "ServedError",
    "compose",
    "dump",
    "first_beyond",
    "marks_of",
    "player_css",
    "player_js",
    "read_served",
    "units_for_sale",
    "write_page",
]
