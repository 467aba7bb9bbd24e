"""A small fake of WeChat Pay's API v3: orders, QR codes, refunds, signed answers and notifications.

It checks the merchant's signature, signs what it answers, and encrypts what it reports, as WeChat
documents it, with `cryptography` and without the package that the shop uses.
"""

from __future__ import annotations

import json
import re
import secrets
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256

API_KEY, SERIAL = "0123456789abcdef0123456789abcdef", "PUB_KEY_ID_0114"
AUTHORIZATION = re.compile(r'(\w+)="([^"]*)"')

Answer = tuple[int, dict[str, Any] | None]


def _new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _sign(key: rsa.RSAPrivateKey, *lines: str) -> str:
    text = "".join(f"{line}\n" for line in lines)
    return b64encode(key.sign(text.encode(), PKCS1v15(), SHA256())).decode()


class FakeWeChat:
    """WeChat Pay, seen from outside the shop.

    Attributes:
        orders: by the merchant's number.
        refunds: likewise.
        lose: whether the next answer is lost after it took effect.
    """

    def __init__(self) -> None:
        self.url, self.lose = "", False
        self.orders: dict[str, dict[str, Any]] = {}
        self.refunds: dict[str, dict[str, Any]] = {}
        self._merchant, self._own = _new_key(), _new_key()
        self._lock = threading.Lock()

    def settings(self) -> dict[str, str]:
        """Return the shop's settings."""
        private = self._merchant.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        public = self._own.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return {
            "PSP_URL": self.url,
            "PSP_KEY": API_KEY,
            "WECHAT_MERCHANT": "1900000001",
            "WECHAT_APP": "wx1",
            "WECHAT_CERTIFICATE": "5157F09EFDC096DE15EBE81A47057A7232F1B8E1",
            "WECHAT_PRIVATE_KEY": private.decode(),
            "WECHAT_PUBLIC_KEY": public.decode(),
            "WECHAT_PUBLIC_KEY_ID": SERIAL,
        }

    def scan(self, number: str) -> None:
        """Let the buyer scan the code and pay."""
        assert self.orders[number]["trade_state"] == "NOTPAY"
        self.orders[number]["trade_state"] = "SUCCESS"

    def kept(self, number: str) -> int:
        """Return what the books say that the shop has of an order."""
        order = self.orders[number]
        taken = order["amount"]["total"] if order["trade_state"] in {"SUCCESS", "REFUND"} else 0
        back = [refund for refund in self.refunds.values() if refund["out_trade_no"] == number]
        return int(taken - sum(e["amount"]["refund"] for e in back if e["status"] == "SUCCESS"))

    def report(self, kind: str, resource: dict[str, Any]) -> tuple[bytes, dict[str, str]]:
        """Return the body and the headers of a notification."""
        nonce = secrets.token_hex(6)
        sealed = AESGCM(API_KEY.encode()).encrypt(
            nonce.encode(), json.dumps(resource).encode(), b"transaction"
        )
        document = {
            "id": secrets.token_hex(16),
            "create_time": datetime.now(UTC).isoformat(timespec="seconds"),
            "event_type": kind,
            "resource_type": "encrypt-resource",
            "resource": {
                "algorithm": "AEAD_AES_256_GCM",
                "ciphertext": b64encode(sealed).decode(),
                "associated_data": "transaction",
                "nonce": nonce,
            },
        }
        body = json.dumps(document)
        return body.encode(), self.signature(body)

    def signature(self, body: str, *, ago: int = 0) -> dict[str, str]:
        """Return the headers that sign a body."""
        at, nonce = str(int(time.time()) - ago), secrets.token_hex(16)
        return {
            "Wechatpay-Signature": _sign(self._own, at, nonce, body),
            "Wechatpay-Signature-Type": "WECHATPAY2-SHA256-RSA2048",
            "Wechatpay-Timestamp": at,
            "Wechatpay-Nonce": nonce,
            "Wechatpay-Serial": SERIAL,
        }

    def answer(self, method: str, path: str, body: str, authorization: str) -> Answer | None:
        """Answer a call of the shop; None if the answer is lost."""
        parts = dict(AUTHORIZATION.findall(authorization))
        signed = (method, path, parts["timestamp"], parts["nonce_str"], body)
        text = "".join(f"{line}\n" for line in signed).encode()
        try:
            signature = b64decode(parts["signature"])
            self._merchant.public_key().verify(signature, text, PKCS1v15(), SHA256())
        except InvalidSignature:
            return 401, {"code": "SIGN_ERROR"}
        with self._lock:
            answer = self._act(method, path.partition("?")[0], json.loads(body or "{}"))
        lost, self.lose = self.lose, False
        return None if lost else answer

    def _act(self, method: str, path: str, asked: dict[str, Any]) -> Answer:
        number = path.removesuffix("/close").rsplit("/", 1)[-1]
        if path == "/v3/pay/transactions/native":
            known = self.orders.setdefault(
                asked["out_trade_no"],
                {
                    "out_trade_no": asked["out_trade_no"],
                    "trade_state": "NOTPAY",
                    "attach": asked["attach"],
                    "amount": asked["amount"],
                },
            )
            if known["trade_state"] != "NOTPAY":
                return 400, {"code": "ORDERPAID"}
            return 200, {"code_url": f"weixin://wxpay/bizpayurl?pr={asked['out_trade_no'][:8]}"}
        if path == "/v3/refund/domestic/refunds" and method == "POST":
            return self._refund(asked)
        if path.startswith("/v3/refund/"):
            found = self.refunds.get(number)
            return (200, found) if found else (404, {"code": "RESOURCE_NOT_EXISTS"})
        order = self.orders.get(number)
        if order is None:
            return 404, {"code": "ORDER_NOT_EXIST"}
        if path.endswith("/close"):
            if order["trade_state"] == "SUCCESS":
                return 400, {"code": "ORDERPAID"}
            order["trade_state"] = "CLOSED"
            return 204, None
        return 200, order

    def _refund(self, asked: dict[str, Any]) -> Answer:
        number, order = asked["out_refund_no"], self.orders[asked["out_trade_no"]]
        if number not in self.refunds:
            if asked["amount"]["refund"] > self.kept(order["out_trade_no"]):
                return 403, {"code": "NOT_ENOUGH"}
            names = ("out_refund_no", "out_trade_no", "amount")
            self.refunds[number] = {name: asked[name] for name in names} | {"status": "SUCCESS"}
            order["trade_state"] = "REFUND"
        return 200, self.refunds[number]


@contextmanager
def running() -> Iterator[FakeWeChat]:
    """Run the fake."""
    fake = FakeWeChat()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            authorization = self.headers.get("Authorization", "")
            found = fake.answer(self.command, self.path, body, authorization)
            if found is None:
                self.close_connection = True
                return
            status, document = found
            text = "" if document is None else json.dumps(document)
            self.send_response(status)
            for name, value in fake.signature(text).items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST = answer  # noqa: N815

        def log_message(self, *_: Any) -> None:
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    fake.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
