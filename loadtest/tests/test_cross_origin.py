"""Locust's page takes orders from its own page and from programs, not from other sites' pages."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import urllib3

from loadtest.tests.fake_shop import FakeShop, serving

ROOT = Path(__file__).resolve().parents[2]
WORDS = {"user_count": "1", "spawn_rate": "1", "sale": "1"}
POSTS = ["/swarm", "/stop", "/stats/reset", "/correctness/reset"]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of a running Locust's page."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    found = f"http://127.0.0.1:{port}"
    with serving(FakeShop()) as shop:
        command = [
            *(sys.executable, "-m", "locust", "-f", "loadtest/locustfile.py", "--host", shop),
            *("--web-host", "127.0.0.1", "--web-port", port),
        ]
        with subprocess.Popen(command, cwd=ROOT) as process:
            try:
                ready(found)
                yield found
            finally:
                process.terminate()


def ready(address: str) -> None:
    """Wait until the page is served."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with suppress(urllib3.exceptions.HTTPError):
            if urllib3.request("GET", address, retries=False, timeout=5).status == 200:
                return
        time.sleep(0.1)
    pytest.fail("Locust does not start")


def post(address: str, path: str, **headers: str) -> int:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    url = f"{address}{path}"
    answer = urllib3.request("POST", url, fields=WORDS, headers=sent, retries=False, timeout=30)
    return answer.status


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize(
    "headers",
    [
        {"Sec_Fetch_Site": "cross-site", "Origin": "https://evil.example"},
        {"Sec_Fetch_Site": "same-site", "Origin": "http://127.0.0.1:1"},
        {"Origin": "https://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "null"},
    ],
    ids=lambda headers: " ".join(headers.values()),
)
def test_a_post_from_another_sites_page_is_refused(
    path: str, headers: dict[str, str], address: str
) -> None:
    assert post(address, path, **headers) == 403
    state = urllib3.request("GET", f"{address}/stats/requests", timeout=30).json()["state"]
    assert state == "ready"


def test_posts_of_its_own_page_and_of_programs_are_done(address: str) -> None:
    assert post(address, "/stop", Origin=address) == 200
    assert post(address, "/stop", Sec_Fetch_Site="same-origin", Origin="https://a-proxy") == 200
    assert post(address, "/stop") == 200


def test_other_sites_may_link_to_the_page(address: str) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Origin": "https://elsewhere.example"}
    assert urllib3.request("GET", address, headers=headers, timeout=30).status == 200
