"""etcd v3 lock: a queue of keys ordered by their creation revision, each with a lease.

Guarantees: mutual exclusion while leases last; strict order of arrival; each client watches only
the key before its own, so one release wakes one client; a crashed holder or waiter leaves the queue
when its lease expires, by etcd's clock; a fencing token (the revision that created the key, which
grows with every write in the cluster).  All of this survives restarts and the loss of a minority.

Limits: a holder that is paused past its lease does not notice, so pass its token to the guarded
resource.  Leases are whole seconds and at least one and a half election time-outs long; etcd may
notice an expiry half a second late.

`etcd_client` supports TLS with a client certificate.  Needs etcd3gw, a client of etcd's HTTP
gateway; its own `Lock` polls and has no fence, and its watch has no time-out, so this module has
its own.  The protocol is that of etcd's client/v3/concurrency.
"""

from __future__ import annotations

import json
import math
from base64 import b64decode, b64encode
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import Any
from urllib.parse import quote

from etcd3gw import Etcd3Client
from etcd3gw.exceptions import Etcd3Exception
from requests import RequestException

from locking.backends._waiting import BackendLease, Deadline, LeasedLock
from locking.base import Lease
from locking.terms import Capabilities, LockUnavailable

ROOT = "locks/"
TIMEOUT = 2.0  # s; for an answer, also during an election
OUTAGE = 5.0  # s; the longest election or restart that a waiter tolerates
RETRY_PAUSE = 0.1  # s; between tries during an outage
MIN_TIMEOUT = 0.01  # s; a socket takes zero as "do not block"


def etcd_client(
    host: str,
    port: int = 2379,
    *,
    ca_cert: str | None = None,
    cert_cert: str | None = None,
    cert_key: str | None = None,
    timeout: float = TIMEOUT,
) -> Etcd3Client:
    """Return a client; with TLS if the PEM files of the CA and of our key are given."""
    client = Etcd3Client(
        host,
        port,
        protocol="https" if ca_cert else "http",
        ca_cert=ca_cert,
        cert_cert=cert_cert,
        cert_key=cert_key,
        timeout=timeout,
        api_path="/v3/",  # fixed since etcd 3.4
    )
    client.session.trust_env = False  # a proxy from the environment would break long watches
    return client


def to_base64(value: str | bytes) -> str:
    """Encode bytes for the JSON of the gateway."""
    return b64encode(value.encode() if isinstance(value, str) else value).decode()


@dataclass(slots=True)
class Place:
    """A key in the queue, and its etcd lease, last kept alive at `kept_at` (monotonic).

    `revision` created the key.
    """

    key: str
    lease: str
    revision: int
    kept_at: float


class EtcdLock(LeasedLock):
    """A queue of keys under one prefix; the oldest holds the lock for `lease` seconds."""

    server = "etcd"
    failures = (Etcd3Exception, RequestException)
    capabilities = Capabilities(
        fence=True, fair=True, survives_server_restart=True, counts_waiters=True
    )

    def __init__(self, client: Etcd3Client, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self.client = client
        self._address = client.base_url
        self.prefix = f"{ROOT}{quote(name, safe='')}/"

    def _acquire(self, deadline: Deadline) -> Lease:
        sent_at = self.clock.monotonic()
        granted = self._grant(self.lease_seconds)
        try:
            place = self._join(granted, sent_at)
            self._wait_for_turn(place, deadline)
            return BackendLease(self, place, token=place.revision, sent_at=place.kept_at)
        except BaseException:
            # Also a key that the server wrote although its answer never reached us.
            self._revoke(granted)
            raise

    def _let_go(self, lease: BackendLease) -> bool:
        place = lease.grant
        delete = {"request_delete_range": {"key": to_base64(place.key)}}
        ours = self._if_there(place, delete)
        self._revoke(place.lease)
        return ours

    def _prolong(self, lease: BackendLease, seconds: float) -> bool:
        # A keep-alive restarts only the original length and does not notice a deleted key.
        place = lease.grant
        longer = self._grant(seconds)
        put = {"key": to_base64(place.key), "value": to_base64(self.owner_name), "lease": longer}
        ours = self._if_there(place, {"request_put": put})
        if ours:
            place.lease, longer = longer, place.lease
        self._revoke(longer)
        return ours

    def _if_there(self, place: Place, operation: dict[str, Any]) -> bool:
        """Run an operation if the key has existed since its creation, in one transaction."""
        since = {
            "key": to_base64(place.key),
            "target": "CREATE",
            "result": "EQUAL",
            "create_revision": place.revision,
        }
        return bool(self._post("kv/txn", compare=[since], success=[operation]).get("succeeded"))

    def _revoke(self, lease: str) -> None:
        with suppress(*self.failures):  # otherwise it expires
            self._post("lease/revoke", ID=lease)

    def _join(self, lease: str, sent_at: float) -> Place:
        """Append our key to the queue; its lease was asked for at `sent_at` (monotonic)."""
        key = f"{self.prefix}{int(lease):016x}"
        put = self._post(
            "kv/put", key=to_base64(key), value=to_base64(self.owner_name), lease=lease
        )
        return Place(key, lease, int(put["header"]["revision"]), sent_at)

    def _wait_for_turn(self, place: Place, deadline: Deadline) -> None:
        """Wait until our key is the oldest; keep it alive, also during a short outage."""
        down_since = inf
        while True:
            try:
                # Kept first, then looked: if we are at the head, our key is surely there.
                self._keep(place)
                before = self._before(place.revision)
                if before is None:
                    return
                left = deadline.time_left()
                key, revision = before
                self._watch(key, revision + 1, min(left, self.lease_seconds / 3))
                down_since = inf
            except self.failures:
                now = self.clock.monotonic()
                down_since = min(down_since, now)
                if now - down_since > min(OUTAGE, self.lease_seconds):
                    raise
                self.clock.sleep(RETRY_PAUSE)

    def _keep(self, place: Place) -> None:
        now = self.clock.monotonic()
        if now - place.kept_at < self.lease_seconds / 4:
            return  # the last keep-alive is recent
        kept = self._post("lease/keepalive", ID=place.lease)
        if int(kept["result"].get("TTL", 0)) <= 0:
            raise LockUnavailable("etcd: our key expired while we waited; acquire again")
        place.kept_at = now

    def _watch(self, key: str, revision: int, seconds: float) -> None:
        """Block until `key` is deleted, `seconds` have passed or the stream breaks."""
        request: dict[str, Any] = {
            "key": to_base64(key),
            "start_revision": revision,
            "filters": ["NOPUT"],
        }
        limits = (TIMEOUT, max(MIN_TIMEOUT, seconds))
        with (
            # A time-out of the stream and a dead server raise the same error; the next keep-alive
            # distinguishes them.
            suppress(RequestException),
            self.client.session.post(
                self.client.get_url("/watch"),
                json={"create_request": request},
                stream=True,
                timeout=limits,
            ) as stream,
        ):
            for line in stream.iter_lines(chunk_size=None):  # type: ignore[call-overload]
                answer = json.loads(line).get("result", {}) if line else {}
                if answer.get("events") or answer.get("canceled"):
                    return

    def _before(self, revision: int) -> tuple[str, int] | None:
        """Return the youngest key older than `revision`, and the revision of that read."""
        found = self._range(max_create_revision=revision - 1, limit=1, sort_order="DESCEND")
        for entry in found.get("kvs", []):
            return b64decode(entry["key"]).decode(), int(found["header"]["revision"])
        return None

    def _range(self, **options: Any) -> Any:
        end = self.prefix[:-1] + chr(ord(self.prefix[-1]) + 1)
        return self._post(
            "kv/range",
            key=to_base64(self.prefix),
            range_end=to_base64(end),
            sort_target="CREATE",
            **options,
        )

    def _grant(self, seconds: float) -> str:
        return str(self._post("lease/grant", TTL=math.ceil(seconds), ID=0)["ID"])

    def _post(self, path: str, **body: Any) -> Any:
        return self.client.post(self.client.get_url(path), json=body)

    def owner(self) -> str | None:
        """See `Lock.owner`."""
        with self.asking():
            for entry in self._range(limit=1, sort_order="ASCEND").get("kvs", []):
                return b64decode(entry["value"]).decode()
        return None

    def waiters(self) -> int:
        """See `Lock.waiters`."""
        with self.asking():
            return max(0, int(self._range(count_only=True).get("count", 0)) - 1)

    def _evict(self) -> bool:
        with self.asking():
            for entry in self._range(limit=1, sort_order="ASCEND").get("kvs", []):
                deleted = self._post("kv/deleterange", key=entry["key"])
                return int(deleted.get("deleted", 0)) == 1
        return False
