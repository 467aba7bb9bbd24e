"""A room's process inside the test's, with its server in a thread, and a browser of its staff."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from lab.room.__main__ import serving
from lab.room.server import RoomServer
from loadtest.faults.fault import free_port
from shop.accounts.models import User
from shop.tests.test_browser import PATIENCE, chromium

__all__ = ["chromium"]

Serve = Callable[[str], AbstractContextManager[RoomServer]]
"""Serves the room of the shop at an address; the settings name its own address."""


@pytest.fixture
def serve_room(settings, monkeypatch, tmp_path: Path) -> Serve:
    @contextmanager
    def serve(shop: str) -> Iterator[RoomServer]:
        port = free_port()
        monkeypatch.setenv("SHOP_DATA", str(tmp_path))
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


@pytest.fixture
def room(live_server, serve_room) -> Iterator[RoomServer]:
    with serve_room(live_server.url) as found:
        yield found


@pytest.fixture
def open_page(chromium, live_server, client, room) -> Iterator[Callable[..., Page]]:
    """Open pages as staff; what the browser complains of fails the test."""
    client.force_login(User.objects.create_superuser("presenter"))
    contexts, complaints = [], []

    def open_page(path: str, **options: Any) -> Page:
        context = chromium.new_context(**{"locale": "en", **options})
        contexts.append(context)
        session = client.cookies["sessionid"].value
        context.add_cookies([{"name": "sessionid", "value": session, "url": live_server.url}])
        context.set_default_timeout(PATIENCE)
        page: Page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text))
        page.goto(f"{live_server.url}{path}")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
