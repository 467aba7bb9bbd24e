#!/usr/bin/env python3
"""The shop's commands. Starts the embedded servers for the commands that need servers."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

# These touch neither database nor Redis, or look after the servers themselves.
NEED_NO_SERVER = {
    *("help", "version", "check", "makemigrations", "makemessages", "compilemessages"),
    *("collectstatic", "diffsettings", "startapp", "startproject", "findstatic", "test"),
    *("lesson", "explore", "bench_locks", "reset", "soak"),
}

# A proof under faults breaks its servers: it gets its own.
BREAKS_SERVERS = ("--fault", "--control")

# Thousands of purchases, about which nobody wants mails; and a proof must not wait for what others
# have left to be followed up.
FILLS_SERVERS = {"bench", "compare", "prove"}


def enter_virtual_environment() -> None:
    """Continue in the project's virtual environment, so that any `python3` may call this file.

    Raises:
        SystemExit: Django is installed neither there nor here.
    """
    project = Path(__file__).resolve().parent
    folder = project / os.environ.get("VENV", ".venv")  # the Makefile's variable
    python = str(folder / "bin" / "python")
    # The path is compared too: PYTHONHOME hides the prefix, and this must not go on for ever.
    inside = sys.executable == python or Path(sys.prefix).resolve() == folder.resolve()
    if not inside and (folder / "pyvenv.cfg").exists() and os.access(python, os.X_OK):
        os.execv(python, [python, *sys.argv])
    if find_spec("django") is None:
        sys.exit(
            "error: Django is not installed. "
            f"Run `make demo` or `make test` once, which install it into {folder.name}."
        )


def main() -> None:
    """Run the command of the command line."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
    command = next((word for word in sys.argv[1:] if not word.startswith("-")), "help")
    alone = {"-h", "--help", "--version", "--redraw"} & set(sys.argv[1:])

    from shop.stack import entry
    from shop.stack.system_errors import told_in_one_line

    breaks = command == "prove" and any(word.startswith(BREAKS_SERVERS) for word in sys.argv)
    fills = command in FILLS_SERVERS
    with told_in_one_line():
        entry.prepare(
            needs_servers=command not in NEED_NO_SERVER and not alone,
            private=fills and not alone,
            breaks=breaks and not alone,
            ports=("SHOP_PORT", "LOCUST_PORT") if command == "demo" and not alone else (),
        )

        from django.core.management import execute_from_command_line

        execute_from_command_line(sys.argv)


if __name__ == "__main__":
    enter_virtual_environment()
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)  # Ctrl-C is no error that needs a traceback
