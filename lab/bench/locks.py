"""Benchmark of the Redis lock against other Python libraries: speed, fairness and waits.

`manage.py bench_locks` runs it; `contenders` has the locks.

Each process records when it asked for the lock and when it got it, on the machine's monotonic
clock, which all processes share.  Waits and hand-overs follow from these times, requests from a
counter in redis-py's connections.
"""

from __future__ import annotations

import inspect
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import redis
import redis.asyncio.connection
from redis.connection import AbstractConnection

from lab.bench.contenders import CEILING, CONTENDERS, LEASE, OURS
from lab.bench.report import Benchmark, Document, interleaved
from locking.redis_client import connect

PROCESSES = get_context("forkserver")
ANSWER_TIMEOUT = 150.0  # s; the slowest contender times out after 120
HEAD_START = 0.05  # s; so that all processes know the start time before it comes
WARM_UP = 0.2  # s; to connect and send the scripts
RECOVERY_LEASE = 2  # s; python-redis-lock supports only whole seconds

Visit = tuple[float, float]
"""When a process asked for the lock, and when it got it."""


@dataclass
class Row:
    """One contender with one number of processes; times in ms, medians over the rounds.

    A spread is half the distance between the lowest and the highest round, as a share of the
    median.
    """

    lock: str
    processes: int
    acquisitions_per_s: float
    handovers_per_s: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    jain: float
    commands_per_acquisition: float
    acquisitions_spread: float = 0.0
    handovers_spread: float = 0.0


class Counter:
    """Counts the requests that this process sends through redis-py's connections."""

    def __init__(self) -> None:
        """Wrap the one method with which redis-py and our transports send."""
        self.requests = 0
        self._count(AbstractConnection)
        self._count(redis.asyncio.connection.AbstractConnection)

    def _count(self, connections: type[Any]) -> None:
        send: Callable[..., Any] = connections.send_packed_command

        def counted(connection: Any, *arguments: Any, **options: Any) -> Any:
            self.requests += 1
            return send(connection, *arguments, **options)

        setattr(connections, send.__name__, counted)


def _work(pipe: Connection) -> None:
    counter = Counter()
    handles: dict[tuple[Any, ...], Any] = {}
    while True:
        try:
            job = pipe.recv()
        except (EOFError, ConnectionResetError):
            return
        key, begin, seconds = job
        if key not in handles:
            contender, url, name, lease, options = key
            handles[key] = CONTENDERS[contender](url, name, lease, **dict(options))
        pipe.send(_visits(handles[key], counter, begin, seconds))


def _visits(handle: Any, counter: Counter, begin: float, seconds: float) -> Any:
    """Use the lock until the time is over; return the visits and the number of requests."""
    time.sleep(max(0.0, begin - time.monotonic()))
    requests, visits, end = counter.requests, list[Visit](), begin + seconds
    if handle.loop:
        handle.loop.run_until_complete(_visit_async(handle, end, visits))
        return visits, counter.requests - requests
    while (asked := time.monotonic()) < end:
        if handle.acquire() is not False:
            visits.append((asked, time.monotonic()))
            handle.release()
    return visits, counter.requests - requests


async def _visit_async(handle: Any, end: float, visits: list[Visit]) -> None:
    while (asked := time.monotonic()) < end:
        await handle.acquire()
        visits.append((asked, time.monotonic()))
        await handle.release()


class Crew:
    """A pool of processes for the whole benchmark."""

    def __init__(self, size: int) -> None:
        """Start `size` processes."""
        PROCESSES.set_forkserver_preload([__name__, "redis_lock", "pottery", "portalocker"])
        self._pipes: list[Connection] = []
        for _ in range(size):
            ours, theirs = PROCESSES.Pipe()
            PROCESSES.Process(target=_work, args=(theirs,), daemon=True).start()
            theirs.close()
            self._pipes.append(ours)

    def run(self, contender: str, url: str, processes: int, seconds: float) -> Row:
        """Let `processes` processes use one lock for `seconds`; return the figures."""
        name = f"bench-{contender}-{processes}"
        self._all(contender, url, name, processes, WARM_UP)
        answers = self._all(contender, url, name, processes, seconds)
        return summary(contender, seconds, answers)

    def _all(
        self, contender: str, url: str, name: str, processes: int, seconds: float
    ) -> list[tuple[list[Visit], int]]:
        if contender == CEILING:
            _lay_baton(url, name, processes)
        begin = time.monotonic() + HEAD_START
        pipes = self._pipes[:processes]
        for place, pipe in enumerate(pipes):
            options = (("place", place), ("of", processes)) if contender == CEILING else ()
            pipe.send(((contender, url, name, LEASE, options), begin, seconds))
        return [_receive(pipe) for pipe in pipes]

    def close(self) -> None:
        """Let the processes end."""
        for pipe in self._pipes:
            pipe.close()


def _lay_baton(url: str, name: str, processes: int) -> None:
    with redis.Redis.from_url(url) as client:
        client.delete(*(f"{name}:{place}" for place in range(processes)))
        client.rpush(f"{name}:0", "the baton")


def _receive(pipe: Connection) -> Any:
    if not pipe.poll(ANSWER_TIMEOUT):
        raise TimeoutError(f"a benchmark process did not answer within {ANSWER_TIMEOUT} s")
    return pipe.recv()


def summary(contender: str, seconds: float, answers: Sequence[tuple[list[Visit], int]]) -> Row:
    """Summarise the records of the processes in one row."""
    waits = sorted((got - asked) * 1000 for visits, _ in answers for asked, got in visits)
    entries = sorted((got, who) for who, (visits, _) in enumerate(answers) for _, got in visits)
    if not entries:  # all have waited at least for so long
        longer = seconds * 1000
        return Row(contender, len(answers), 0.0, 0.0, longer, longer, longer, 0.0, 0.0)
    span = max(seconds, entries[-1][0] - min(asked for visits, _ in answers for asked, _ in visits))
    changes = sum(a[1] != b[1] for a, b in pairwise(entries))
    counts = [len(visits) for visits, _ in answers]
    requests = sum(sent for _, sent in answers) or 2 * len(entries)  # the ceiling's own sockets
    return Row(
        lock=contender,
        processes=len(answers),
        acquisitions_per_s=len(entries) / span,
        handovers_per_s=changes / span,
        p50_ms=waits[len(waits) // 2],
        p99_ms=waits[min(len(waits) - 1, len(waits) * 99 // 100)],
        max_ms=waits[-1],
        jain=sum(counts) ** 2 / (len(counts) * sum(count * count for count in counts)),
        commands_per_acquisition=requests / len(entries),
    )


def median(rows: Sequence[Row]) -> Row:
    """Return the row of medians, figure by figure, with their spreads."""
    columns = [asdict(row) for row in rows]
    figures = {
        key: round(statistics.median(column[key] for column in columns), 4)
        for key in columns[0]
        if key not in ("lock", "processes")
    }
    figures["acquisitions_spread"] = spread([row.acquisitions_per_s for row in rows])
    figures["handovers_spread"] = spread([row.handovers_per_s for row in rows])
    return Row(lock=rows[0].lock, processes=rows[0].processes, **figures)


def spread(figures: Sequence[float]) -> float:
    """Return half the distance between the lowest and the highest, as a share of the median."""
    middle = statistics.median(figures)
    return round((max(figures) - min(figures)) / 2 / middle, 4) if middle else 0.0


class Case(NamedTuple):
    """A contender with a number of processes."""

    processes: int
    lock: str

    def __str__(self) -> str:
        return f"{self.processes} × {self.lock}"


def compare(
    url: str,
    contenders: Sequence[str],
    processes: Sequence[int],
    rounds: int,
    seconds: float,
    tell: Callable[[str], None],
) -> list[Row]:
    """Measure each contender with every number of processes; medians over the rounds."""
    crew = Crew(max(processes))
    cases = [Case(many, contender) for many in processes for contender in contenders]
    try:
        found = interleaved(
            cases, rounds, lambda case: crew.run(case.lock, url, case.processes, seconds), tell
        )
    finally:
        crew.close()
    return [median(samples) for samples in found.values()]


def _hold(pipe: Connection, contender: str, url: str) -> None:
    handle = CONTENDERS[contender](url, f"recovery-{contender}", RECOVERY_LEASE)
    _finish(handle, handle.acquire())
    pipe.send(time.monotonic())
    time.sleep(ANSWER_TIMEOUT)


def _wait(pipe: Connection, contender: str, url: str) -> None:
    handle = CONTENDERS[contender](url, f"recovery-{contender}", RECOVERY_LEASE)
    pipe.send("asking")
    _finish(handle, handle.acquire())
    pipe.send(time.monotonic())
    _finish(handle, handle.release())


def _finish(handle: Any, result: Any) -> None:
    if inspect.isawaitable(result):
        handle.loop.run_until_complete(result)


def recovery(contender: str, url: str) -> float:
    """Return the seconds from the `SIGKILL` of a holder until the next one has the lock."""
    with ExitStack() as processes:
        holder, held = processes.enter_context(_process(_hold, contender, url))
        _receive(held)
        _, waiter = processes.enter_context(_process(_wait, contender, url))
        _receive(waiter)
        time.sleep(0.2)  # so that it is waiting
        holder.kill()
        killed = time.monotonic()
        return float(_receive(waiter)) - killed


@contextmanager
def _process(target: Callable[..., None], contender: str, url: str) -> Iterator[tuple[Any, Any]]:
    ours, theirs = PROCESSES.Pipe()
    process = PROCESSES.Process(target=target, args=(theirs, contender, url), daemon=True)
    process.start()
    try:
        yield process, ours
    finally:
        process.kill()
        process.join()
        ours.close()


def server(url: str) -> str:
    """Return the name and version of the server."""
    with connect(url) as client:
        info: Any = client.info("server")
    name = "Valkey" if "valkey_version" in info else "Redis"
    return f"{name} {info.get('valkey_version') or info['redis_version']}"


def table(document: Document) -> Iterator[Sequence[str]]:
    """Yield the headings and the locks: alone, and with the most processes."""
    few, most = _ends(document["rows"])
    yield (
        "Lock",
        f"{few}: per s",
        f"{most}: hand-overs/s",
        "±",
        "p99 ms",
        "max ms",
        "Jain",
        "cmds",
        "after kill, s",
    )
    by = {(row["lock"], row["processes"]): row for row in document["rows"]}
    for name in dict.fromkeys(row["lock"] for row in document["rows"]):
        alone, crowd = by[name, few], by[name, most]
        kill = document["recovery"].get(name)
        yield (
            name,
            f"{alone['acquisitions_per_s']:,.0f}",
            f"{crowd['handovers_per_s']:,.0f}",
            f"{crowd['handovers_spread']:.0%}",
            f"{crowd['p99_ms']:,.0f}",
            f"{crowd['max_ms']:,.0f}",
            f"{crowd['jain']:.2f}",
            f"{crowd['commands_per_acquisition']:,.1f}",
            "" if kill is None else f"{kill:.2f}",
        )


def _ends(rows: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    numbers = {row["processes"] for row in rows}
    return min(numbers), max(numbers)


def distance_to_ceiling(document: Document) -> Iterator[str]:
    """Explain what our lock costs beyond the ceiling; nothing without a ceiling."""
    by = {(row["lock"], row["processes"]): row for row in document["rows"]}
    for many in sorted({row["processes"] for row in document["rows"]}):
        ours, limit = by.get((OURS, many)), by.get((CEILING, many))
        figure = "acquisitions" if many == 1 else "handovers"
        if ours is None or limit is None or not (rate := ours[f"{figure}_per_s"]):
            continue
        what = "acquire and release" if many == 1 else "hand-over"
        mine, least = 1e6 / rate, 1e6 / limit[f"{figure}_per_s"]
        noise = max(ours[f"{figure}_spread"], limit[f"{figure}_spread"])
        sentence = f"{many} {'process' if many == 1 else 'processes'}: {what} in {mine:.0f} µs, "
        sentence += f"of which {least:.0f} µs are the ceiling's."
        if mine < least:
            sentence += f" Less than the ceiling: the rounds differ by ±{noise:.0%}."
        yield sentence


LOCKS = Benchmark("bench-locks", table, distance_to_ceiling)
