"""A room's process inside the test's: its server in a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from lab.room.__main__ import serving
from lab.room.server import Handler, RoomServer
from loadtest.faults.ports import free_port

Serve = Callable[[str], AbstractContextManager[RoomServer]]
"""Serves the room of the shop at an address; the settings name its own address."""


@pytest.fixture
def serve_room(settings, monkeypatch, tmp_path: Path) -> Serve:
    @contextmanager
    def serve(shop: str) -> Iterator[RoomServer]:
        port = free_port()
        monkeypatch.setenv("SHOP_DATA", str(tmp_path))
        # A crowded machine may keep a request waiting for longer than a viewer would be.
        monkeypatch.setattr(Handler, "timeout", 60)
        settings.ROOM_URL = f"http://127.0.0.1:{port}"
        with serving(port, shop, tmp_path / "target.json") as room:
            thread = threading.Thread(target=room.serve_forever, args=[0.05])
            thread.start()
            try:
                yield room
            finally:
                room.shutdown()
                thread.join()

    return serve
