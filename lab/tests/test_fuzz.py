"""The API and its document agree, as Schemathesis sees it: against a real server, in sequences.

No server error, nothing accepted that the document forbids, nothing refused that it allows except
by the state of the shop (`fuzz_checks.py`), and every answer as described.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import urllib3

from lab import environment
from lab.stack.embedded import private_servers
from lab.stack.private import private_folder
from lab.stack.stack import Stack

CHECKS = Path(__file__).with_name("fuzz_checks.py")

SECONDS = 90
"""Of Schemathesis; what it has not tried by then is left to the next run."""

EXAMPLES = 20
"""Of each operation, in each phase."""

SEED = 7


@pytest.fixture(scope="module")
def shop():
    """A shop of its own: what it is asked for here, no other test should meet."""
    with private_servers() as servers, private_folder() as folder:
        migrate = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
        given = {**os.environ, **servers.urls.as_environment()}
        subprocess.run(migrate, cwd=environment.PROJECT, env=given, check=True, timeout=60)
        with Stack(folder / "shop", servers.urls) as stack:
            stack.start("psp", "web")
            yield stack.url


def a_token(url: str) -> str:
    answer = urllib3.request("POST", f"{url}/api/v1/demo/buyers", json={"count": 1})
    token: str = answer.json()["tokens"][0]
    return token


@pytest.mark.long
@pytest.mark.timeout(500)
def test_the_document_and_the_api_agree(shop, tmp_path):
    command = [
        *(str(Path(sys.executable).with_name("schemathesis")), "run"),
        f"{shop}/api/v1/openapi.json",
        *("--header", f"Authorization: Bearer {a_token(shop)}"),
        *("--checks", "all", "--exclude-checks", "positive_data_acceptance"),
        *("--max-examples", str(EXAMPLES), "--max-time", str(SECONDS), "--seed", str(SEED)),
        *("--request-timeout", "30", "--no-color"),
    ]
    given = {**os.environ, "SCHEMATHESIS_HOOKS": str(CHECKS), "COLUMNS": "100"}
    # In a folder of its own, in which it leaves its notes.
    run = subprocess.run(
        command, cwd=tmp_path, env=given, capture_output=True, text=True, timeout=400
    )
    print(run.stdout, run.stderr)
    assert run.returncode == 0
    # All operations, the links between them, and what was made up of them.
    assert "Tested: 19" in run.stdout
