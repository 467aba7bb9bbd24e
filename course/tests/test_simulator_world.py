"""The simulated world: virtual time, one process at a time, dead processes stay dead."""

import gc
import threading
import time
from collections.abc import Callable
from functools import partial

import pytest
from greenlet import getcurrent
from redis.exceptions import TimeoutError as RedisTimeout

from course.simulator.history import Kind
from course.simulator.process import Stuck
from course.simulator.redis_client import SimulatedRedis
from course.simulator.redis_server import RedisServer
from course.simulator.schedule import Act, Deviation, Replay
from course.simulator.table import TableServer
from course.simulator.timeline import as_text, rows
from course.simulator.virtual import THREADING, TIME
from course.simulator.world import World


def play(*deviations: Deviation, **programs: Callable[[SimulatedRedis], object]) -> RedisServer:
    """Run clients by these names, one second after the other; return their server."""
    server = RedisServer(World(Replay(deviations)))
    for place, (name, program) in enumerate(programs.items()):

        def run(program: Callable[[SimulatedRedis], object] = program) -> None:
            program(SimulatedRedis(server))

        server.world.spawn(server.world.process(name), run, after=float(place))
    server.world.run()
    return server


def test_world_lets_a_day_pass_at_once_and_clocks_differ():
    world = World(Replay(()))
    seen: list[float] = []

    def run() -> None:
        start, steady = TIME.time(), TIME.monotonic()
        TIME.sleep(86_400)
        seen.extend([TIME.time() - start, TIME.monotonic() - steady, start])

    world.spawn(world.process("A", skew=15.0), run)
    began = time.monotonic()
    world.run()
    assert time.monotonic() - began < 60
    assert seen == [86_400.0, 86_400.0, 1_700_000_015.0]


def test_monotonic_clocks_of_two_processes_are_unrelated():
    world = World(Replay(()))
    seen: list[float] = []
    for name in "AB":
        world.spawn(world.process(name), lambda: seen.append(TIME.monotonic()), after=len(seen) + 1)
    world.run()
    assert seen[0] > seen[1] + 60


def test_stand_ins_are_real_outside_of_a_simulation():
    assert abs(TIME.time() - time.time()) < 60
    assert isinstance(THREADING.Event(), threading.Event)
    assert THREADING.current_thread() is threading.current_thread()
    with pytest.raises(Stuck):
        World(Replay(())).sleep(1)


def test_crashed_process_reaches_no_server_in_its_finally():
    def run(client: SimulatedRedis) -> None:
        client.set("k", "1")
        try:
            client.set("k", "2")
        finally:
            client.delete("k")

    server = play(Deviation("A", "acquire", 2, Act.CRASH), A=run)
    assert server.model.execute([b"GET", b"k"]) == b"1"
    faults = [event.what for event in server.world.history if event.kind is Kind.FAULT]
    assert faults == ["crashes"]


@pytest.mark.parametrize(("act", "carried_out"), [(Act.LOSE_REPLY, b"2"), (Act.LOSE_REQUEST, b"1")])
def test_lost_reply_was_executed_and_lost_request_was_not(act, carried_out):
    errors: list[str] = []

    def run(client: SimulatedRedis) -> None:
        client.set("k", "1")
        try:
            client.set("k", "2")
        except RedisTimeout as error:
            errors.append(f"{error} at {client.server.world.seconds():.3f}")

    server = play(Deviation("A", "acquire", 2, act), A=run)
    assert errors == ["Timeout reading from socket at 1.002"]
    assert server.model.execute([b"GET", b"k"]) == carried_out


def test_blocked_readers_are_served_in_order():
    got: list[tuple[str, object]] = []

    def read(name: str, client: SimulatedRedis) -> None:
        got.append((name, client.blpop(["list"], timeout=5)))

    a, b = partial(read, "A"), partial(read, "B")
    server = play(A=a, B=b, C=lambda client: client.rpush("list", "x"))
    assert got == [("A", (b"list", b"x")), ("B", None)]
    assert server.world.seconds() == pytest.approx(6.001)


def test_client_error_is_raised():
    with pytest.raises(ZeroDivisionError):
        play(A=lambda _: 1 / 0)
    with pytest.raises(AttributeError, match="has no threading"):
        play(A=lambda _: THREADING.Condition())


def test_world_keeps_no_reference_to_its_thread_after_its_end():
    worlds: list[World] = []
    held: list[object] = []

    def run(client: SimulatedRedis) -> None:
        THREADING.Thread(target=TIME.sleep, args=(9,), daemon=True).start()
        client.set("k", "1")

    def serve() -> None:
        crash = Deviation("A", "acquire", 1, Act.CRASH)
        worlds.extend([play(A=run, B=run).world, play(crash, A=run).world])
        held.extend(gc.get_referrers(getcurrent()))

    thread = threading.Thread(target=serve)
    thread.start()
    thread.join()
    assert len(worlds) == 2
    assert held == []


def test_unknown_statement_is_named_in_the_error():
    server = TableServer(World(Replay(())))

    def truncate() -> None:
        server.connect().execute("TRUNCATE t")

    server.world.spawn(server.world.process("A"), truncate)
    with pytest.raises(NotImplementedError, match="does not understand 'TRUNCATE'"):
        server.world.run()


def test_timeline_folds_repeats():
    def run(client: SimulatedRedis) -> None:
        for _ in range(5):
            client.get("a")
            client.ttl("a")
        client.set("k", 1_700_000_010.5)

    history = rows(play(A=run).world.history)
    assert [line.split() for line in as_text(history).splitlines()[2:]] == [
        ["0.002", "A", "TTL", "a", "-2"],
        ["⋮", "8", "more", "like", "these,", "until", "0.010", "s"],
        ["0.011", "A", "SET", "k", "@10.500", "OK"],
    ]
    assert history[-1].answer == "OK"
