"""Locust with this project's locustfile: `python -m loadtest --shop path.to:Adapter --mix buyers`.

The arguments are Locust's and this project's. `--help` lists both, which `locust -f FILE --help`
does not: Locust prints its help before it reads a locustfile.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

LOCUSTFILE = Path(__file__).with_name("locustfile.py")

DESCRIPTION = (
    "Load a shop and judge it by its own books. Of the common options, those from --shop to "
    "--until-done belong to this load test; all others are Locust's."
)


def main(arguments: list[str]) -> None:
    """Become Locust, or print the help."""
    if {"-h", "--help"} & set(arguments):
        _print_help()
        return
    os.execv(sys.executable, [sys.executable, "-m", "locust", "-f", str(LOCUSTFILE), *arguments])


def _print_help() -> None:
    # Locust patches the process when it is imported, which must come first.
    from locust.argument_parser import get_parser

    from loadtest.options import add_options

    parser = get_parser()
    parser.usage, parser.description = "python -m loadtest [options]", DESCRIPTION
    add_options(parser)
    parser.print_help()


if __name__ == "__main__":
    main(sys.argv[1:])
