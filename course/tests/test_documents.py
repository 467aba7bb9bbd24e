"""The examples of docs/locks.md run as printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

from development.servers import Valkey

ROOT = Path(__file__).parents[2]


def test_documents_examples_run(valkey_server: Valkey):
    text = (ROOT / "docs" / "locks.md").read_text()
    blocks = re.findall(r"```python title=surface\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) == 2
    environ = {**os.environ, "REDIS_URL": valkey_server.endpoint, "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-W", "error", "-c", "".join(blocks)]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"sold with fence \d+\nrestocked 42\nsold with fence \d+\n", done.stdout)
