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
    given = parser.parse_args()
    try:
        print(take(given.destination.resolve(), given.name.strip()))
    except NotTaken as refused:
        sys.exit(f"error: {refused}")


main()
