"""`python -m loadtest.rush --shop path.to:Adapter --host URL`: exit 0 holds, 1 broken, 2 unknown.

`--measure` compares the two ways of sending requests together instead.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path

from loadtest.address import RunImpossible
from loadtest.checker import EXIT_CODES, UNKNOWN
from loadtest.files import RunFiles, new_file
from loadtest.release import Release
from loadtest.rush.plan import SCENES, size_of
from loadtest.rush.result import Terminal
from loadtest.rush.run import measure, rush_shop
from loadtest.rush.verdict import lines, write_rush
from loadtest.shop import Level, Sizes
from loadtest.shops import load

DESCRIPTION = (
    "Rush a shop through its adapter and judge it by its own books. Exit code: 0 it holds, "
    "1 a property is broken, 2 it could not be judged."
)
OTHERS = "Buyers at their own pace, and the page of Locust: python -m loadtest --help."
MODULE = "python -m loadtest.rush"
SCRIPT = "flash-sale-loadtest"
"""What `packaging/loadtest` installs this module as."""


def command(program: str) -> str:
    """Return what a user types to run this module again, from the program's path."""
    return shlex.quote(program) if Path(program).stem == SCRIPT else MODULE


def main(arguments: list[str] | None = None) -> int:
    """Rush a shop and print the result on one screen."""
    prog = command(sys.argv[0])
    parser = argparse.ArgumentParser(prog=prog, description=DESCRIPTION, epilog=OTHERS)
    parser.add_argument("--shop", required=True, help="the adapter, as path.to:Adapter")
    parser.add_argument("--host", required=True, help="the shop's address")
    proposed = "default: as the adapter proposes, or"
    parser.add_argument("--stock", type=int, help=f"units ({proposed} {Sizes.stock})")
    parser.add_argument("--buyers", type=int, help=f"per round ({proposed} {Sizes.buyers})")
    parser.add_argument("--rounds", type=int, help=f"of each level ({proposed} {Sizes.rounds})")
    parser.add_argument(
        "--level",
        action="append",
        choices=[scene.value for scene in SCENES],
        help="what to try, of what the adapter offers; repeatable (default: all)",
    )
    parser.add_argument("--release", choices=[*map(str, Release)], default=Release.LAST_BYTE)
    parser.add_argument(
        "--folder", type=Path, help="keeps the histories, the books, verdict and page"
    )
    parser.add_argument("--json", type=new_file, help="writes the result")
    parser.add_argument("--measure", action="store_true", help="compare the ways of sending")
    parser.add_argument("--i-own-this-host", action="store_true", help="load another machine")
    options = parser.parse_args(arguments)
    owned = options.i_own_this_host
    try:
        shop = load(options.shop, options.host)
        size = size_of(shop, options.stock, options.buyers, options.rounds)
        if options.measure:
            print(*measure(shop, *size, host=options.host, owned=owned), sep="\n")
            return 0
    except RunImpossible as error:
        print(f"cannot be judged: {error}", file=sys.stderr)
        return EXIT_CODES[UNKNOWN]
    terminal = Terminal(sys.stderr)
    result = rush_shop(
        shop,
        *size,
        host=options.host,
        release=Release(options.release),
        folder=options.folder,
        owned=owned,
        levels=[Level(level) for level in options.level or SCENES],
        repeat=f"{prog} {shlex.join(arguments if arguments is not None else sys.argv[1:])}",
        observer=terminal.observer,
    )
    terminal.clear()
    print(*lines(result), sep="\n")
    if options.folder:
        write_rush(result, RunFiles(options.folder))
        print(f"Report: {RunFiles(options.folder).report}")
    if options.json:
        options.json.write_text(json.dumps(result.to_json(), indent=2) + "\n")
    return result.exit_code


if __name__ == "__main__":
    sys.exit(main())
