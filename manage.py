#!/usr/bin/env python
"""The shop's commands. In demo mode, `lab` starts the embedded servers for them."""

import os
import sys
from importlib.util import find_spec

from django.core.management import execute_from_command_line


def main() -> None:
    """Run the command of the command line."""
    if find_spec("lab"):
        from lab.stack import entry

        entry.prepare(sys.argv)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)  # Ctrl-C is no error that needs a traceback
