"""Commands of the shop, as processes on servers of a test's own."""

from __future__ import annotations

import os
import subprocess
import sys

from development.embedded import ServerUrls
from lab import environment


def manage(urls: ServerUrls, *words: str, **variables: str) -> None:
    """Run `manage.py` with these words on these servers; the test fails if it does."""
    subprocess.run(
        [sys.executable, "manage.py", *words],
        cwd=environment.PROJECT,
        env={**os.environ, **urls.as_environment(), **variables},
        check=True,
        timeout=120,
    )
