"""A whole shop for the tests that reach it by HTTP only."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from lab import environment
from lab.stack.embedded import private_servers
from lab.stack.private import private_folder
from lab.stack.stack import Stack


@pytest.fixture(scope="module")
def shop() -> Iterator[str]:
    """Start a private shop, because the requests would disturb other tests; yield its address."""
    with private_servers() as servers, private_folder() as folder:
        migrate = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
        given = {**os.environ, **servers.urls.as_environment()}
        subprocess.run(migrate, cwd=environment.PROJECT, env=given, check=True, timeout=60)
        with Stack(folder / "shop", servers.urls) as stack:
            stack.start("psp", "web")
            yield stack.url
