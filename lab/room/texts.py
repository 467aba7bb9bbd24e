"""What the room's pages say that the process or the scripts only name: events, faults, figures."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from loadtest.fault_needs import CLOCK, DATABASE_PROXY, DISK, FAILPOINTS, REDIS_PROXY
from loadtest.roles import roles_for
from loadtest.scenarios import MIXES

EVENTS: dict[str, Promise] = {
    "sale": _("Sale %(sale)s: %(units)s units, strategy %(strategy)s"),
    "opened": _("Sale %(sale)s has opened"),
    "sold_out": _("Sale %(sale)s is sold out"),
    "restocked": _("Sale %(sale)s: %(units)s units added"),
    "paused": _("Sale %(sale)s is paused"),
    "resumed": _("Sale %(sale)s goes on"),
    "strategy": _("Sale %(sale)s now sells with %(strategy)s"),
    "oversold": _("Sale %(sale)s is oversold"),
    "books_wrong": _("The books of sale %(sale)s are wrong: %(problem)s"),
    "books_right": _("The books of sale %(sale)s balance again"),
    "away": _("%(server)s does not answer"),
    "back": _("%(server)s answers again"),
    "worker_gone": _("Web process %(pid)s is gone"),
    "worker_new": _("Web process %(pid)s has started"),
    "without_redis": _("Web process %(pid)s sells without the lock"),
    "with_redis": _("Web process %(pid)s uses the lock again"),
    "stale_token": _("Writes with an old fencing token refused: %(count)s"),
    "fault": _("Fault injected: %(fault)s"),
    "healed": _("Fault healed after %(seconds)s s: %(fault)s"),
    "fault_failed": _("Fault failed: %(fault)s (%(problem)s)"),
    "rush": _("%(buyers)s buyers are on their way to sale %(sale)s"),
    "rush_over": _("All buyers of sale %(sale)s have finished"),
    "rush_failed": _("The rush at sale %(sale)s failed: %(problem)s"),
    "recorded": _("The rush at sale %(sale)s can be watched in slow motion"),
    "record_failed": _("The rush could not be recorded: %(problem)s"),
    "provider": _("Payment provider: %(behaviour)s"),
    "duel": _("Duel: %(first)s against %(second)s"),
    "duel_over": _("The duel has been judged"),
    "duel_failed": _("The duel could not be finished"),
}
"""By the event's code; see `lab/room/room.py`."""

SERVERS: dict[str, Promise | str] = {
    "postgres": "PostgreSQL",
    "redis": "Redis",
    "room": _("Picture"),
}

FAULTS: dict[str, Promise] = {
    "web-killed": _("kill a web process"),
    "web-killed-before-commit": _("kill a web process before its commit"),
    "web-killed-after-commit": _("kill a web process after its commit"),
    "web-killed-before-answer": _("kill a web process before its answer"),
    "holder-paused": _("pause the lock's holder beyond its lease"),
    "redis-killed": _("kill Redis"),
    "redis-paused": _("pause Redis"),
    "redis-full": _("fill Redis' memory"),
    "postgres-killed": _("kill PostgreSQL"),
    "postgres-restarted": _("restart PostgreSQL"),
    "postgres-terminated": _("cut all database connections"),
    "postgres-exhausted": _("use up all database connections"),
    "celery-killed": _("kill the Celery worker"),
    "broker-emptied": _("empty Celery's queue"),
    "mail-killed": _("kill the mail server"),
    "redis-slow": _("let Redis answer late"),
    "redis-mute": _("lose Redis' replies"),
    "redis-reset": _("cut the connections to Redis"),
    "redis-failover": _("fail Redis over to a stale replica"),
    "commit-lost": _("cut connections at COMMIT"),
    "clock-stepped": _("set the web processes' clock"),
    "disk-full": _("fill the database's disk"),
}
"""Faults, as what the button does."""

EXPECTED: dict[str, Promise] = {
    "web-killed": _("Its requests are unknown; asking again with the same key gets the result"),
    "web-killed-before-commit": _("PostgreSQL rolls back: nothing was sold, asking again may"),
    "web-killed-after-commit": _("It is sold, nobody was told; asking again gets the order"),
    "web-killed-before-answer": _("It is sold, nobody was told; asking again gets the order"),
    "holder-paused": _("The next holder goes on; the old one's token changes nothing"),
    "redis-killed": _("Redis is away: sold without the lock, the guard decides"),
    "redis-paused": _("One short wait, then sold without the lock: the guard decides"),
    "redis-full": _("No lock can be written: sold without it, the guard decides"),
    "postgres-killed": _("No sale until it is back; what was confirmed is there again"),
    "postgres-restarted": _("No sale until it is back; what was confirmed is there again"),
    "postgres-terminated": _("Open transactions roll back; the next connects again"),
    "postgres-exhausted": _("Refused with “busy” before anything is written"),
    "celery-killed": _("Orders go on; a sweep does later what follows them"),
    "broker-emptied": _("Orders go on; a sweep finds in the outbox what was lost"),
    "mail-killed": _("Orders go on; mails are sent when the server is back"),
    "redis-slow": _("Short waits, and nothing piles up"),
    "redis-mute": _("One time-out, then sold without the lock; nothing is done twice"),
    "redis-reset": _("Sold without the lock, the guard decides"),
    "redis-failover": _("Two may hold the lock: the guard decides, nothing is oversold"),
    "commit-lost": _("Was it sold? The database is asked, never guessed"),
    "clock-stepped": _("Windows are judged by one clock, the database's"),
    "disk-full": _("Errors, and no order that is not in the books"),
}
"""What the shop does about each fault, for those who watch."""

LACKS: dict[str, Promise] = {
    REDIS_PROXY: _("they need proxies before the servers, which slow a sale down"),
    DATABASE_PROXY: _("they need proxies before the servers, which slow a sale down"),
    CLOCK: _("they need libfaketime (Debian's package faketime) under the web processes"),
    DISK: _("they need a database on a small disk of its own, whose data are not kept"),
    FAILPOINTS: _("they need failpoints in the web processes"),
}
"""Why a demo does not offer some faults, by what it lacks."""

BEHAVIOURS: dict[str, Promise] = {
    "well": _("behaves"),
    "declines": _("declines every second payment"),
    "delays": _("answers late"),
    "lost": _("loses a third of its answers"),
    "repeats": _("repeats its webhooks out of order"),
}

FIGURES: dict[str, Promise] = {
    "available": _("Available"),
    "held": _("Held"),
    "sold": _("Sold"),
    "reserved": _("Held or sold"),
    "oversold": _("Oversold"),
    "accepted": _("Accepted"),
    "refused": _("Refused"),
    "failed": _("Failed"),
    "requests": _("Requests/s"),
    "p50": _("Median, ms"),
    "p99": _("99 % within, ms"),
    "batch": _("Purchases per commit"),
}

SCENE: dict[str, Promise] = {
    "buyers": _("Buyers wait in their web process"),
    "lock": _("The item's lock"),
    "free": _("free"),
    "holder": _("held by %(pid)s"),
    "token": _("fencing token"),
    "lease": _("lease ends in %(seconds)s s"),
    "line": _("in line: %(pids)s"),
    "nobody": _("nobody in line"),
    "unlocked": _("%(strategy)s does not use the lock"),
    "unreachable": _("Redis does not answer: sold without the lock, the guard decides"),
    "commit": _("One transaction"),
    "batch_size": _("%(size)s purchases each"),
    "commits": _("commits per second: %(count)s"),
    "row": _("The item's row"),
    "left": _("%(available)s of %(total)s left"),
    "outbox": _("Outbox"),
    "messages": _("messages to do: %(count)s"),
    "mails": _("mails to send: %(count)s"),
    "waiting": _("%(count)s waiting"),
    "stopped": _("stopped"),
    "degraded": _("without Redis"),
}

VERDICT: dict[str, Promise] = {
    "balanced": _("The books balance"),
    "wrong": _("The books are wrong"),
    "oversold_by": _("Oversold by %(units)s"),
    "unknown": _("PostgreSQL does not answer"),
    "no_sale": _("No sale yet"),
    "pass": _("Proved: nothing oversold, lost or doubled"),
    "fail": _("Broken"),
    "not_judged": _("Could not be judged"),
}

STATES: dict[str, Promise] = {
    "follow": _("the newest sale"),
    "opens_in": _("opens in %(seconds)s s"),
    "open": _("open"),
    "is_paused": _("paused"),
    "ended": _("ended"),
    "pause": _("Pause"),
    "resume": _("Resume"),
    "unharmed": _("Break something while buyers are on their way."),
    "lacking": _("Not in this demo: %(why)s. Have them with"),
    "lost": _("No connection to the room's process. Trying again."),
    "gathering the buyers": _("the buyers gather"),
    "selling": _("on sale"),
    "waiting for the follow-up": _("waiting for the follow-up"),
    "asking again": _("asking some buyers again"),
    "judging": _("being judged"),
    "waiting": _("waits"),
    "recorded": _("Recorded on %(recorded)s: %(buyers)s buyers, %(units)s units, seed %(seed)s"),
    "within": _("%(orders)s orders within %(ms)s ms"),
}


def texts() -> dict[str, dict[str, str]]:
    """Return all of them in the visitor's language, by group."""
    groups: dict[str, Mapping[str, Promise | str]] = {
        "events": EVENTS,
        "servers": SERVERS,
        "faults": FAULTS,
        "expected": EXPECTED,
        "lacks": LACKS,
        "behaviours": BEHAVIOURS,
        "figures": FIGURES,
        "scene": SCENE,
        "verdict": VERDICT,
        "states": STATES,
    }
    return {
        group: {name: str(text) for name, text in named.items()} for group, named in groups.items()
    }


MIX_NAMES = tuple(name for name in MIXES if len(roles_for(name)) == 1)
"""Mixes that need no further sales."""
