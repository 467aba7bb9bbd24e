"""`.ci/audit` against a stand-in for osv.dev that knows of one vulnerability."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lab import environment
from lab.tests.needs import TOOLS_OF_CI
from locking.tests.needs import needs

pytestmark = needs(TOOLS_OF_CI)

FINDING = {
    "id": "GHSA-stand-in",
    "affected": [
        {
            "package": {"name": "django", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "5.2.1"}]}],
        }
    ],
}


class Osv(BaseHTTPRequestHandler):
    """Knows of one version of Django."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        found = asked.get("package", {}).get("name") == "django" and asked["version"] == "5.2.0"
        body = json.dumps({"vulns": [FINDING]} if found else {}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def osv() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Osv) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1/query"
        server.shutdown()


def audit(folder: Path, url: str, pins: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Audit these pins."""
    (folder / "pins.txt").write_text(pins)
    return subprocess.run(
        [environment.PROJECT / ".ci" / "audit", folder / "pins.txt"],
        env={**os.environ, "VENV": sys.prefix, "OSV_URL": url, "AUDIT": "", **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )


def test_a_known_vulnerability_fails_the_audit_and_other_versions_pass(osv, tmp_path):
    failed = audit(tmp_path, osv, "django==5.2.0\nredis==8.1.0\n")
    assert failed.returncode == 1, failed.stderr
    assert failed.stdout.split()[-4:] == ["django", "5.2.0", "GHSA-stand-in", "5.2.1"]
    passed = audit(tmp_path, osv, "django==5.2.1\n")
    assert passed.returncode == 0, passed.stderr


def test_without_the_database_nothing_is_audited_which_fails_only_where_it_must_not_be(tmp_path):
    nobody = "http://127.0.0.1:9/v1/query"
    told = f"{nobody} cannot be reached from here: the dependencies are NOT AUDITED.\n"
    here = audit(tmp_path, nobody, "django==5.2.0\n")
    assert (here.returncode, here.stdout) == (0, told)
    in_ci = audit(tmp_path, nobody, "django==5.2.0\n", AUDIT="required")
    assert (in_ci.returncode, in_ci.stdout) == (1, told)
    assert in_ci.stderr == "error: AUDIT=required\n"
