"""A whole shop for the tests that reach it by HTTP only."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from development.embedded import private_servers
from development.private import private_folder
from lab.stack.stack import Stack
from lab.tests.managed import manage


@pytest.fixture(scope="module")
def shop() -> Iterator[str]:
    """Start a private shop, because the requests would disturb other tests; yield its address."""
    with private_servers(durable=False) as servers, private_folder() as folder:
        manage(servers.urls, "migrate", "--verbosity", "0")
        with Stack(folder / "shop", servers.urls) as stack:
            stack.start("psp", "web")
            yield stack.url
