"""`make take-home DEST=../acme NAME="Acme Tickets"`; needs Python and git only."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from lab.take_home.repository import NotTaken, take


def main() -> None:
    """Take the shop home, or bring one that was taken home up to date."""
    parser = argparse.ArgumentParser(prog="take-home", description=take.__doc__)
    parser.add_argument("destination", type=Path)
    parser.add_argument("name", help="the shop's name")
    for option in ("pages", "payments"):
        parser.add_argument(f"--{option}", choices=["yes", "none"])
    parser.add_argument("--languages", help="codes such as en,zh-hans, the default first")
    given = parser.parse_args()
    options: dict[str, bool | str] = {}
    for option in ("pages", "payments"):
        if chosen := getattr(given, option):
            options[option] = chosen == "yes"
    if given.languages:
        options["languages"] = given.languages
    try:
        print(take(given.destination.resolve(), given.name.strip(), **options))
    except NotTaken as refused:
        sys.exit(f"error: {refused}")


main()
