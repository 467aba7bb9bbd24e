"""A lock on etcd, by etcd3gw's own `Lock`: a key that only one client can create, under a lease.

The lock survives restarts and the loss of a minority of the servers. A crashed holder's key ends
with its lease, by etcd's clock, in whole seconds and up to a few later. The fencing token is the
revision that created the key. etcd3gw's lock has no queue: waiters try again and again, in no
order. A holder that is paused past its lease does not notice, so pass its token to what the lock
guards.

`etcd_client` speaks TLS with a client's certificate.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

from etcd3gw import Etcd3Client
from etcd3gw.exceptions import Etcd3Exception
from etcd3gw.lock import Lock
from requests import RequestException

from locking.backends.common import BackendLease, Grant, PollingBackend, hashed_key
from locking.base import Capabilities

TIMEOUT = 2.0
"""Seconds for an answer, also during an election."""


def etcd_client(
    host: str,
    port: int = 2379,
    *,
    ca_cert: str | None = None,
    cert_cert: str | None = None,
    cert_key: str | None = None,
    timeout: float = TIMEOUT,
) -> Etcd3Client:
    """Return a client; with TLS if the PEM files of the authority and of our key are given."""
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
    client.session.trust_env = False  # no proxy of the environment on the way to our own servers
    return client


class EtcdLock(PollingBackend):
    """A key that only one client can create, for `lease` seconds, rounded up.

    Args:
        client: of etcd3gw, best from `etcd_client`.
        name: the lock's.
        options: `lease` and `timeout`; see `LeasedBackend`.
    """

    server = "etcd"
    failures = (Etcd3Exception, RequestException)
    capabilities = Capabilities(fence=True, survives_restart=True, force_release=True)

    def __init__(self, client: Etcd3Client, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self.client = client
        self.id = hashed_key(name)

    def _try(self, value: str) -> Grant | None:
        lock = self.client.lock(self.id, ttl=math.ceil(self.seconds))
        try:
            if lock.acquire():
                # Of a key that has ended meanwhile, another client's revision is read: then the
                # lease is over as well, and is given back.
                for found, about in self.client.get(lock.key, metadata=True):
                    if found.decode() == lock.uuid:
                        return Grant(lock, int(about["create_revision"]))
        except BaseException:
            # The key may be there although the answer never came.
            self._revoke(lock)
            raise
        self._revoke(lock)
        return None

    def _let_go(self, lease: BackendLease) -> bool:
        ours: bool = lease.grant.release()
        self._revoke(lease.grant)
        return ours

    def _revoke(self, lock: Lock) -> None:
        """End the lease of a lock that is not ours; otherwise it ends by itself."""
        with suppress(*self.failures):
            if lock.lease is not None:
                lock.lease.revoke()

    def locked(self) -> bool:
        """See `Lock.locked`."""
        with self.asking():
            return bool(self.client.get(self.client.lock(self.id).key))

    def force_release(self, reason: str) -> bool:
        """See `Lock.force_release`."""
        with self.asking():
            held = bool(self.client.delete(self.client.lock(self.id).key))
        return self._log_eviction(held, reason)
