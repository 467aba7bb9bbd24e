"""Schemathesis checks the API against its document, on a real server, in sequences of calls.

There are no server errors, forbidden requests are refused, allowed ones are refused only for the
shop's state (`fuzz_checks.py`), and every answer is as documented.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import urllib3

CHECKS = Path(__file__).with_name("fuzz_checks.py")

SECONDS = 40
"""Time limit of Schemathesis; the next run tries other cases."""

EXAMPLES = 20
"""Examples per operation and phase."""

SEED = 7


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
    # In a separate folder, because it leaves files there.
    run = subprocess.run(
        command, cwd=tmp_path, env=given, capture_output=True, text=True, timeout=400
    )
    print(run.stdout, run.stderr)
    assert run.returncode == 0
    # All operations, the links between them, and generated sequences.
    assert "Tested: 19" in run.stdout
