"""Faults of Redis: killed, paused, slow, mute, reset, full, failed over to a lagging replica."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from random import Random
from typing import Any, ClassVar
from urllib.parse import urlsplit

import psutil
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from loadtest.fault_needs import REDIS_PROXY
from loadtest.faults.fault import (
    Control,
    Fault,
    FaultFailed,
    Target,
    free_port,
    is_stopped,
    kill,
    send,
    wait_until,
)

DELAYS = (0.05, 0.2, 0.7)
"""Seconds by which replies are late: less and more than the shop's timeout."""


def connect(url: str, timeout: float = 5.0, **options: Any) -> redis.Redis:
    """Return a client that does not retry."""
    waits = {"socket_timeout": timeout, "socket_connect_timeout": timeout}
    return redis.Redis.from_url(url, retry=Retry(NoBackoff(), 0), **waits, **options)


def answers(client: redis.Redis) -> bool:
    """Whether the server answers now."""
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False


class _Redis(Fault):
    """A fault of the server itself."""

    def __init__(self, target: Target, random: Random) -> None:
        super().__init__(target, random)
        self.client = connect(target.redis)

    def pid(self) -> int:
        """Return the pid of the server."""
        try:
            return int(self.client.info("server")["process_id"])
        except redis.RedisError as error:
            raise FaultFailed(f"Redis does not answer: {error}") from error

    def heal(self) -> None:
        """Wait until it answers."""
        wait_until("Redis answers", lambda: answers(self.client))
        self.client.close()


class RedisKilled(_Redis):
    """SIGKILL; the supervisor restarts it, and it has no data on disk."""

    name = "redis-killed"
    what = "Redis is killed and comes back empty"
    expected = "the sale continues; locks are rebuilt, the fence does not fall"
    lasts = (0.0, 0.5)

    def inject(self) -> None:  # noqa: D102
        self.did["keys"] = self.client.dbsize()
        self.did["killed"] = kill([psutil.Process(self.pid())])


class RedisPaused(_Redis):
    """SIGSTOP: connections stay open without answers."""

    name = "redis-paused"
    what = "Redis is paused"
    expected = "bounded waits, then sales without the lock"

    _pid = 0

    def inject(self) -> None:  # noqa: D102
        self._pid = self.pid()
        send(self._pid, signal.SIGSTOP)
        wait_until("Redis stops", lambda: is_stopped(self._pid), 5)
        self.did["stopped"] = [self._pid]

    def heal(self) -> None:  # noqa: D102
        if self._pid:
            send(self._pid, signal.SIGCONT)
        super().heal()


class _Proxied(Fault):
    """A fault of the proxy between the shop and Redis; the server is not involved."""

    needs = frozenset({REDIS_PROXY})
    mode: ClassVar[str]

    def __init__(self, target: Target, random: Random) -> None:
        super().__init__(target, random)
        self.proxy = Control(target.redis_proxy)
        self._before = self.proxy.tell()

    def inject(self) -> None:
        """Let the proxy misbehave."""
        delay = self.random.choice(DELAYS) if self.mode == "slow" else 0.0
        self.did |= {"delay": delay} if delay else {}
        self.proxy.tell(mode=self.mode, seconds=delay)

    def heal(self) -> None:
        """Forward everything again."""
        after = self.proxy.tell(mode="pass")
        self.did |= {
            name: number - self._before[name]
            for name, number in after.items()
            if number > self._before[name]
        }


class RedisSlow(_Proxied):
    """Every reply is late, by less or by more than the shop's timeout."""

    name = "redis-slow"
    what = "Redis answers late"
    expected = "bounded waits, no pile-up"
    mode = "slow"


class RedisMute(_Proxied):
    """Commands take effect, but their replies are lost."""

    name = "redis-mute"
    what = "Redis' replies get lost"
    expected = "one timeout, then sales without the lock; nothing is done twice"
    mode = "mute"


class RedisReset(_Proxied):
    """Existing and new connections are reset."""

    name = "redis-reset"
    what = "connections to Redis are reset"
    expected = "sales without the lock"
    mode = "reset"


class RedisFull(_Redis):
    """No free memory and nothing that may be evicted."""

    name = "redis-full"
    what = "Redis is full and evicts nothing"
    expected = "sales without the lock; refusals go to the database"

    _before: dict[Any, Any] | None = None

    def inject(self) -> None:  # noqa: D102
        self._before = self.client.config_get("maxmemory", "maxmemory-policy")
        self._refused = self._refusals()
        self.client.config_set("maxmemory-policy", "noeviction")
        self.client.config_set("maxmemory", 1)

    def heal(self) -> None:  # noqa: D102
        if self._before is not None:
            for name, value in self._before.items():
                self.client.config_set(name, value)
            self.did["writes refused"] = self._refusals() - self._refused
        super().heal()

    def _refusals(self) -> int:
        statistics = self.client.info("errorstats").get("errorstat_OOM", {})
        return int(statistics.get("count", 0)) if isinstance(statistics, dict) else 0


class RedisFailover(_Redis):
    """A replica that lacks the last writes is promoted, and the old primary dies.

    Healing reverts it in the same way: the old primary, empty, becomes a replica of the new one,
    is promoted when it has all data, and takes over again.
    """

    name = "redis-failover"
    what = "a replica without the last writes is promoted"
    expected = "two holders are possible; nothing is oversold"
    needs = frozenset({REDIS_PROXY})

    _replica: subprocess.Popen[bytes] | None = None
    _switched = False

    def inject(self) -> None:  # noqa: D102
        primary = psutil.Process(self.pid())
        parts = urlsplit(self.target.redis)
        self._port, self._password = free_port(), parts.password or ""
        self._own_port = parts.port or 6379
        # Otherwise it waits five seconds for further replicas.
        self.client.config_set("repl-diskless-sync-delay", 0)
        self._start_replica(primary)
        self._new = connect(
            parts._replace(netloc=f":{self._password}@127.0.0.1:{self._port}").geturl()
        )
        wait_until("the replica has everything", lambda: _in_step(self._new), 20)
        self._new.replicaof("NO", "ONE")
        time.sleep(0.3)  # the new primary lacks what is written during this time
        written, seen = _offset(self.client), _offset(self._new)
        Control(self.target.redis_proxy).tell(mode="pass", port=self._port)
        self._switched = True
        self.did |= {
            "killed": kill([primary]),
            "promoted": self._replica.pid if self._replica else 0,
        }
        self.did["bytes of writes lost"] = written - seen

    def heal(self) -> None:  # noqa: D102
        wait_until("the old primary answers", lambda: answers(self.client))
        if self._switched:
            self._go_back()
        if self._replica is not None:
            self._replica.kill()
            self._replica.wait()
        super().heal()

    def _start_replica(self, primary: psutil.Process) -> None:
        self._replica = subprocess.Popen(
            [
                primary.exe(),
                "--port",
                str(self._port),
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--requirepass",
                self._password,
                "--primaryauth",
                self._password,
                "--replicaof",
                f"127.0.0.1 {self._own_port}",
                "--databases",
                "64",
                "--repl-diskless-sync-delay",
                "0",
            ],
            # Marked like the primary, so that cleaning up after the primary finds this process too.
            env={**os.environ, **primary.environ()},
            cwd=primary.cwd(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _go_back(self) -> None:
        self.client.config_set("masterauth", self._password)
        self.client.replicaof("127.0.0.1", self._port)
        try:
            wait_until("the old primary has everything", lambda: _in_step(self.client), 20)
        finally:
            self.client.replicaof("NO", "ONE")
            Control(self.target.redis_proxy).tell(mode="pass", port=self._own_port)


def _in_step(client: redis.Redis) -> bool:
    try:
        link = client.info("replication")
    except redis.RedisError:
        return False
    return bool(link.get("master_link_status") == "up" and not link.get("master_sync_in_progress"))


def _offset(client: redis.Redis) -> int:
    return int(client.info("replication")["master_repl_offset"])
