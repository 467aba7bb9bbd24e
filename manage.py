#!/usr/bin/env python3
"""The shop's commands. Outside production, embedded servers are started for them."""

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path


def enter_virtual_environment() -> None:
    """Continue in the project's virtual environment, so that any `python3` may call this file.

    Raises:
        SystemExit: Django is installed neither there nor here.
    """
    project = Path(__file__).resolve().parent
    folder = project / os.environ.get("VENV", ".venv")  # the Makefile's variable
    python = str(folder / "bin" / "python")
    # The path is compared too: PYTHONHOME hides the prefix, and this must not go on forever.
    inside = sys.executable == python or Path(sys.prefix).resolve() == folder.resolve()
    if not inside and (folder / "pyvenv.cfg").exists() and os.access(python, os.X_OK):
        os.execv(python, [python, *sys.argv])
    if find_spec("django") is None:
        sys.exit(
            "error: Django is not installed. "
            f"Run `make test` once, which installs it into {folder.name}."
        )


def main() -> None:
    """Run the command of the command line."""
    from django.core.management import execute_from_command_line

    from shop import environment
    from shop.operating import safe_start

    preparation: AbstractContextManager[None] = nullcontext()
    entry = environment.own("development")["entry"]
    if find_spec(entry.partition(".")[0]):  # production has none
        preparation = import_module(entry).prepared(sys.argv)
    with preparation:
        environment.choose_settings()
        safe_start.refuse_unsafe_command(sys.argv)
        execute_from_command_line(sys.argv)


if __name__ == "__main__":
    enter_virtual_environment()
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)  # Ctrl-C is no error that needs a traceback
