"""`python -m lab.bench.streams URL…`: open these streams and read them until the input ends."""

from __future__ import annotations

import sys
import threading
from http.client import HTTPResponse
from urllib.request import urlopen


def main(*urls: str) -> None:
    """Say when all of them are open, then read."""
    for stream in [urlopen(url, timeout=30) for url in urls]:
        threading.Thread(target=_read, args=[stream], daemon=True).start()
    print("watching", flush=True)
    sys.stdin.read()


def _read(stream: HTTPResponse) -> None:
    for _ in stream:
        pass


if __name__ == "__main__":
    main(*sys.argv[1:])
