"""`python -m lab.bench.collector`: take OTLP traces and drop them, until the input ends.

Prints its port first. A process of its own: what a collector costs is none of the shop's.
"""

from __future__ import annotations

import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Taker(BaseHTTPRequestHandler):
    """Answers 200 to everything."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Read the traces."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Tell nothing."""


def main() -> None:
    """Serve on a free port of 127.0.0.1."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Taker)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
