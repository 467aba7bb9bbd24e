"""The player as text, and a page of its own with a replay inside."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from loadtest.replay.document import dump

_HERE = Path(__file__).parent

PLAYER = _HERE / "player"
"""The player's folder, from which the demo serves it."""

SCRIPTS = ("words.js", "file.js", "picture.js", "view.js", "player.js")
"""In the order in which they need each other."""


def player_css() -> str:
    """Return the player's styles."""
    return (PLAYER / "player.css").read_text(encoding="utf-8")


def player_js() -> str:
    """Return the player's scripts as one."""
    return "\n".join((PLAYER / name).read_text(encoding="utf-8") for name in SCRIPTS)


def write_page(path: str | Path, document: Mapping[str, Any]) -> None:
    """Write a page that plays a replay and loads nothing."""
    # Not above: a web process serves the player and writes no pages, and its image has no Jinja2.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    templates = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    page = templates.get_template("page.html").render(
        title=document["title"],
        css=Markup(player_css()),
        js=Markup(player_js()),
        document=Markup(dump(document)),
    )
    Path(path).write_text(page, encoding="utf-8")
