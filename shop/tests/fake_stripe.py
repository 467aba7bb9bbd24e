"""localstripe, a fake Stripe that is not ours, and a proxy that adds what it lacks.

localstripe keeps the books: payment intents, cards, captures, refunds. The proxy in front of it
adds, as Stripe documents them: idempotency keys (a repeated key gets the first answer, and another
request under it an error), refunds that fail later, and the codes of refusals. `event` makes an
event of what the books say, signed like Stripe's; `dispute` makes a dispute.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import urllib3

from development.servers import Command, free_port

KEY, SECRET = "sk_test_12345", "whsec_test"
CARDS = {
    "good": "4242424242424242",
    "asks": "4000000000003220",
    "declined": "4000000000000341",
}


class FakeStripe:
    """Stripe, seen from outside the shop.

    Attributes:
        url: of the proxy.
        lose: names of calls (`capture`, `refunds`, …) whose next answer is lost after it took
            effect.
        failed: numbers of refunds that have failed.
    """

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self.url = ""
        self.lose: list[str] = []
        self.failed: set[str] = set()
        self._answers: dict[str, tuple[bytes, int, bytes]] = {}
        self._lock = threading.Lock()

    def forget_keys(self) -> None:
        """Forget all idempotency keys, as Stripe does after a day."""
        self._answers.clear()

    def call(self, method: str, path: str, **fields: Any) -> dict[str, Any]:
        """Call localstripe as Stripe's dashboard or script would."""
        status, body = self._send(method, path, urlencode(fields).encode())
        document: dict[str, Any] = json.loads(body)
        assert status == 200 or "error" in document, body
        return document

    def buyer_pays(self, intent: str, card: str = "good") -> dict[str, Any]:
        """Let the buyer enter a card in the form; return what the form gets."""
        number = CARDS[card]
        expiry = {"card[exp_month]": "12", "card[exp_year]": "2040", "card[cvc]": "123"}
        method = self.call(
            "POST", "/v1/payment_methods", type="card", **{"card[number]": number}, **expiry
        )
        # localstripe lets nobody try again after a charge that failed, unless it is forgotten.
        new = {"payment_method": method["id"], "latest_charge": None}
        self._send("POST", f"/v1/payment_intents/{intent}", json.dumps(new).encode())
        return self.call("POST", f"/v1/payment_intents/{intent}/confirm")

    def bank_asked(self, intent: str, *, agrees: bool) -> dict[str, Any]:
        """Answer the question of the buyer's bank (3-D Secure)."""
        secret = self.intent(intent)["client_secret"]
        answer = {"client_secret": secret, "success": str(agrees).lower()}
        return self.call("POST", f"/v1/payment_intents/{intent}/_authenticate", **answer)

    def intent(self, intent: str) -> dict[str, Any]:
        """Return a PaymentIntent as the books have it."""
        return self.call("GET", f"/v1/payment_intents/{intent}")

    def intents(self) -> list[dict[str, Any]]:
        """Return all PaymentIntents."""
        return list(self.call("GET", "/v1/payment_intents?limit=100")["data"])

    def refunds(self, intent: str) -> list[dict[str, Any]]:
        """Return the refunds of a PaymentIntent."""
        found = self.call("GET", f"/v1/refunds?payment_intent={intent}&limit=100")
        return [self._as_it_is(refund) for refund in found["data"]]

    def kept(self, intent: str) -> int:
        """Return what the books say that the shop has of a payment."""
        document = self.intent(intent)
        taken = document["amount"] if document["status"] == "succeeded" else 0
        back = self.refunds(intent) if taken else []
        return int(taken - sum(each["amount"] for each in back if each["status"] == "succeeded"))

    def event(self, kind: str, about: dict[str, Any], **more: Any) -> tuple[bytes, dict[str, str]]:
        """Return the body and the headers of a webhook."""
        event = {
            "id": f"evt_{uuid4().hex}",
            "object": "event",
            "type": kind,
            "created": int(time.time()),
            "data": {"object": about},
            **more,
        }
        return signed(json.dumps(event).encode())

    def dispute(self, intent: str, status: str) -> dict[str, Any]:
        """Return a dispute of a payment."""
        document = self.intent(intent)
        return {
            "id": f"du_{intent}",
            "object": "dispute",
            "payment_intent": intent,
            "amount": document["amount"],
            "currency": document["currency"],
            "status": status,
        }

    def answer(
        self, method: str, path: str, body: bytes, key: str, authorization: str
    ) -> tuple[int, bytes] | None:
        """Answer a call of the shop; None if the answer is lost."""
        with self._lock:
            asked = f"{method} {path}".encode() + body
            if key and key in self._answers:
                first, status, answer = self._answers[key]
                if first != asked:
                    return 400, _error("idempotency_error", "", "another request used this key")
                return status, answer
            status, answer = self._send(method, path, body, authorization)
            answer = self._corrected(path, status, answer)
            status = 400 if status == 500 else status
            if key:
                self._answers[key] = asked, status, answer
            name = path.partition("?")[0].rsplit("/", 1)[-1]
            if name in self.lose:
                self.lose.remove(name)
                return None
            return status, answer

    def _corrected(self, path: str, status: int, answer: bytes) -> bytes:
        if status in {400, 500} and path.endswith(("/capture", "/cancel")):
            return _error("invalid_request_error", "payment_intent_unexpected_state", "no")
        document = json.loads(answer)
        if document.get("object") == "list":
            document["data"] = [self._as_it_is(entry) for entry in document["data"]]
        return json.dumps(self._as_it_is(document)).encode()

    def _as_it_is(self, document: dict[str, Any]) -> dict[str, Any]:
        return document | {"status": "failed"} if document.get("id") in self.failed else document

    def _send(
        self, method: str, path: str, body: bytes, authorization: str = f"Bearer {KEY}"
    ) -> tuple[int, bytes]:
        answer = urllib3.request(
            method,
            f"{self._backend}{path}",
            body=body or None,
            headers={
                "Authorization": authorization,
                "Content-Type": "application/x-www-form-urlencoded",
            },
            retries=False,
            timeout=30,
        )
        return answer.status, answer.data


def signed(body: bytes, *, ago: int = 0, secret: str = SECRET) -> tuple[bytes, dict[str, str]]:
    """Sign a webhook as Stripe documents it, without its library."""
    at = str(int(time.time()) - ago)
    digest = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return body, {"Stripe-Signature": f"t={at},v1={digest}"}


def _error(kind: str, code: str, message: str) -> bytes:
    return json.dumps({"error": {"type": kind, "code": code, "message": message}}).encode()


@contextmanager
def running(folder: Path) -> Iterator[FakeStripe]:
    """Run localstripe and the proxy."""
    port = free_port()
    # It keeps its store under HOME, and listens on all addresses by default.
    program = (
        "import sys, logging; from aiohttp import web; from localstripe.server import app; "
        "web.run_app(app, host='127.0.0.1', port=int(sys.argv[1]), print=None)"
    )
    words = (sys.executable, "-c", program, str(port))
    localstripe = Command("localstripe", words, home=folder, port=port)
    localstripe.inherited = {"HOME": str(folder), "PATH": ""}
    fake = FakeStripe(localstripe.endpoint)

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            key = self.headers.get("Idempotency-Key", "")
            authorization = self.headers.get("Authorization", "")
            found = fake.answer(self.command, self.path, body, key, authorization)
            if found is None:
                self.close_connection = True
                return
            self.send_response(found[0])
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(found[1])))
            self.end_headers()
            self.wfile.write(found[1])

        do_GET = do_POST = answer  # noqa: N815

        def log_message(self, *_: Any) -> None:
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    fake.url = f"http://127.0.0.1:{server.server_port}"
    try:
        with localstripe:
            yield fake
    finally:
        server.shutdown()
        server.server_close()
