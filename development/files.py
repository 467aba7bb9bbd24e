"""Files that only this user may read."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_private(path: Path, content: str) -> None:
    """Replace `path` atomically, readable by this user only."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(content)
    temporary.replace(path)
