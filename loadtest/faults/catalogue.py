"""All faults by name. To add one, write a class in its family's file and list it here."""

from __future__ import annotations

from collections.abc import Iterable

from loadtest.faults.bed_fault import ClocksApart, WebHostLost, WebLinkSlow
from loadtest.faults.celery import BrokerEmptied, CeleryKilled
from loadtest.faults.clock import ClockStepped
from loadtest.faults.cluster_hosts import ClusterPrimaryLost
from loadtest.faults.disk import DiskFull
from loadtest.faults.fault import Fault
from loadtest.faults.mail import MailKilled
from loadtest.faults.postgres import (
    BackendsTerminated,
    CommitLost,
    ConnectionsExhausted,
    PostgresKilled,
    PostgresRestarted,
)
from loadtest.faults.postgres_hosts import (
    PostgresPrimaryDiskFull,
    PostgresPrimaryIsolated,
    PostgresPrimaryLost,
    PostgresPrimaryOneWay,
    PostgresSplit,
    WebCutOffFromPostgres,
)
from loadtest.faults.rabbitmq_hosts import RabbitMQLeaderLost
from loadtest.faults.redis import (
    RedisFailover,
    RedisFull,
    RedisKilled,
    RedisMute,
    RedisPaused,
    RedisReset,
    RedisSlow,
)
from loadtest.faults.redis_hosts import (
    RedisCutOff,
    RedisOneWay,
    RedisPrimaryLost,
    RedisSplit,
    RedisStalePromoted,
    WebCutOffFromRedis,
)
from loadtest.faults.web import (
    HolderPaused,
    KilledAfterCommit,
    KilledBeforeAnswer,
    KilledBeforeCommit,
    WebKilled,
)
from loadtest.faults.web_hosts import BeatHostLost, WebRollingRestart

FAULTS: dict[str, type[Fault]] = {
    fault.name: fault
    for fault in (
        WebKilled,
        KilledBeforeCommit,
        KilledAfterCommit,
        KilledBeforeAnswer,
        HolderPaused,
        RedisKilled,
        RedisPaused,
        RedisSlow,
        RedisMute,
        RedisReset,
        RedisFull,
        RedisFailover,
        PostgresKilled,
        PostgresRestarted,
        BackendsTerminated,
        ConnectionsExhausted,
        CommitLost,
        CeleryKilled,
        BrokerEmptied,
        MailKilled,
        ClockStepped,
        DiskFull,
    )
}

"""Those of one machine."""

BED_FAULTS: dict[str, type[Fault]] = {
    fault.name: fault
    for fault in (
        RedisPrimaryLost,
        RedisStalePromoted,
        RedisSplit,
        RedisOneWay,
        RedisCutOff,
        WebCutOffFromRedis,
        ClusterPrimaryLost,
        PostgresPrimaryLost,
        PostgresPrimaryIsolated,
        PostgresPrimaryOneWay,
        PostgresSplit,
        PostgresPrimaryDiskFull,
        WebCutOffFromPostgres,
        RabbitMQLeaderLost,
        ClocksApart,
        WebHostLost,
        WebLinkSlow,
        BeatHostLost,
        WebRollingRestart,
    )
}
"""Those of several hosts, for `prove --bed`; each bed names the ones that it was made for."""


def find(name: str) -> type[Fault]:
    """Return the fault of this name."""
    return FAULTS[name] if name in FAULTS else BED_FAULTS[name]


def left_out(names: Iterable[str], there: frozenset[str]) -> dict[str, str]:
    """Return those of these faults that cannot be injected here, with what they lack."""
    return {
        name: ", ".join(sorted(missing)) for name in names if (missing := find(name).needs - there)
    }
