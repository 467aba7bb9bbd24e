"""`python -m lab.room --port 8792 …`: the room's process, which the demo starts."""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import django
from django.conf import settings

from lab import environment

if TYPE_CHECKING:
    from lab.room.server import RoomServer

STATEMENT_TIMEOUT = 5000
"""Milliseconds: an action that waits longer behind a rush is refused, and its button is free."""


def main() -> None:
    """Serve until SIGTERM or SIGINT; then heal the fault and send the buyers away."""
    parser = argparse.ArgumentParser(prog="lab.room")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--shop", required=True, help="the shop's address")
    parser.add_argument("--target", type=Path, required=True, help="what faults act on")
    arguments = parser.parse_args()
    os.environ["DJANGO_SETTINGS_MODULE"] = "lab.settings"
    connect_without_pool()
    django.setup()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    with serving(arguments.port, arguments.shop, arguments.target) as server:
        server.serve_forever(poll_interval=0.2)


def connect_without_pool() -> None:
    """Keep one connection per thread: for a pool's, the sampler would wait behind its actions."""
    options = settings.DATABASES["default"]["OPTIONS"]
    options.pop("pool", None)
    options["connect_timeout"] = 2
    options["options"] = f"-c statement_timeout={STATEMENT_TIMEOUT}"


@contextmanager
def serving(port: int, shop: str, target: Path) -> Iterator[RoomServer]:
    """Yield the server of a room that reads; afterwards end what its actions have begun."""
    from lab.room.actions import Actions
    from lab.room.duel import Duels
    from lab.room.faults import FaultControl
    from lab.room.readings import Programs
    from lab.room.room import Room
    from lab.room.rush import Rush
    from lab.room.server import Answers, RoomServer

    data = environment.data_folder()
    room = Room(Programs(target).read)
    faults = FaultControl(target, data / "servers", room)
    faults.restore()
    room.offered, room.missing = faults.offered, faults.missing
    rush, duels = Rush(shop, data / "rushes", room, faults), Duels(shop, data / "duels", room)
    actions = Actions(room, faults, rush, duels)
    with ExitStack() as cleanup:
        server = RoomServer(port, Answers(room, origins(shop), actions, rush, duels))
        cleanup.callback(server.server_close)
        room.start()
        for stop in (room.stop, duels.stop, rush.abandon, faults.task.stop):
            cleanup.callback(stop)
        yield server


def origins(shop: str) -> frozenset[str]:
    """Return the origins of the shop's pages: by number, by name, and as the owner published it."""
    port = urlsplit(shop).port
    return frozenset({f"http://127.0.0.1:{port}", f"http://localhost:{port}", settings.PUBLIC_URL})


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)


if __name__ == "__main__":
    main()
