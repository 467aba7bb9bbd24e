"""The simulated world: virtual time, one process at a time, dead processes stay dead."""

import threading
import time
from collections.abc import Callable
from functools import partial

import pytest
from psycopg.errors import UniqueViolation
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


def world_of(*deviations: Deviation) -> World:
    return World(Replay(deviations))


def play(
    *deviations: Deviation, replicated: bool = False, **programs: Callable[[SimulatedRedis], object]
) -> RedisServer:
    """Run clients by these names, one second after the other; return their server."""
    server = RedisServer(world_of(*deviations), replicated=replicated)
    for place, (name, program) in enumerate(programs.items()):

        def run(program: Callable[[SimulatedRedis], object] = program) -> None:
            program(SimulatedRedis(server))

        server.world.spawn(server.world.process(name), run, after=float(place))
    server.world.run()
    return server


def test_a_day_passes_in_no_time_and_clocks_can_differ():
    world = world_of()
    seen: list[float] = []

    def run() -> None:
        start = TIME.time()
        TIME.sleep(86_400)
        seen.extend([TIME.time() - start, TIME.monotonic(), start])

    world.spawn(world.process("A", skew=15.0), run)
    began = time.monotonic()
    world.run()
    assert time.monotonic() - began < 60
    assert seen == [86_400.0, 86_400.0, 1_700_000_015.0]


def test_outside_of_a_simulation_the_stand_ins_are_the_real_thing():
    assert abs(TIME.time() - time.time()) < 60
    assert isinstance(THREADING.Event(), threading.Event)
    assert THREADING.current_thread() is threading.current_thread()
    with pytest.raises(Stuck):
        world_of().sleep(1)


def test_a_crashed_process_reaches_no_server_not_even_in_its_finally():
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
def test_a_lost_reply_was_carried_out_and_a_lost_request_was_not(act, carried_out):
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


def test_a_paused_process_stands_still_with_all_its_threads():
    ticks: list[float] = []

    def run(client: SimulatedRedis) -> None:
        stop = THREADING.Event()

        def tick() -> None:
            while not stop.wait(1.0):
                ticks.append(TIME.monotonic())

        thread = THREADING.Thread(target=tick, daemon=True)
        thread.start()
        TIME.sleep(2.5)
        client.set("k", "1")
        stop.set()
        thread.join()

    play(Deviation("A", "acquire", 1, Act.PAUSE, seconds=15.0), A=run)
    assert ticks[:2] == [1.0, 2.0]
    assert all(tick >= 17.5 for tick in ticks[2:])


def test_a_switch_lets_the_other_go_first():
    def order(*deviations: Deviation) -> list[str]:
        world = world_of(*deviations)
        server = RedisServer(world)

        def run() -> None:
            client = SimulatedRedis(server)
            client.get("k")
            client.get("k")

        for name in "AB":
            world.spawn(world.process(name), run)
        world.run()
        return [event.who for event in world.history if event.kind is Kind.COMMAND]

    assert order() == ["A", "A", "B", "B"]
    assert order(Deviation("A", "acquire", 2, Act.SWITCH, "B")) == ["A", "B", "B", "A"]


def test_a_fail_over_forgets_the_last_write_and_only_that():
    answers: list[object] = []

    def run(client: SimulatedRedis) -> None:
        client.set("first", "1")
        client.set("second", "1")
        answers.extend([client.get("first"), client.get("second")])

    play(Deviation("A", "acquire", 3, Act.FAIL_OVER, "redis"), replicated=True, A=run)
    assert answers == [b"1", None]


def test_blocked_readers_are_served_in_the_order_in_which_they_came():
    got: list[tuple[str, object]] = []

    def read(name: str, client: SimulatedRedis) -> None:
        got.append((name, client.blpop(["list"], timeout=5)))

    a, b = partial(read, "A"), partial(read, "B")
    server = play(A=a, B=b, C=lambda client: client.rpush("list", "x"))
    assert got == [("A", (b"list", b"x")), ("B", None)]
    assert server.world.seconds() == pytest.approx(6.001)


def test_locks_of_a_process_make_its_threads_wait():
    log: list[str] = []

    def run(_: SimulatedRedis) -> None:
        lock, ready = THREADING.Lock(), THREADING.Event()

        def other() -> None:
            ready.wait(9)
            with lock:
                log.append("enters")

        thread = THREADING.Thread(target=other)
        thread.start()
        with lock:
            ready.set()
            TIME.sleep(1)
            log.append("leaves")
        thread.join()
        with pytest.raises(AttributeError, match="the simulator has no threading"):
            THREADING.Condition()

    play(A=run)
    assert log == ["leaves", "enters"]


def test_an_error_in_a_client_is_not_swallowed():
    with pytest.raises(ZeroDivisionError):
        play(A=lambda _: 1 / 0)


INSERT = "INSERT INTO t (name, n) VALUES (%s, %s)"
SELECT = "SELECT n FROM t WHERE name = %s"
TAKE = "UPDATE t SET n = n - %s WHERE name = %s AND n >= %s"


def test_a_transaction_makes_others_wait_as_in_postgresql():
    world = world_of()
    server = TableServer(world)
    server.preload("t", name="x", n=3)
    seen: list[object] = []

    def first() -> None:
        connection = server.connect(autocommit=False)
        assert connection.execute(TAKE, (2, "x", 2)).rowcount == 1
        connection.execute(INSERT, ("y", 1))
        world.sleep(5)
        connection.commit()
        connection.execute("DELETE FROM t WHERE name = %s", ("y",))
        world.sleep(5)
        connection.rollback()

    def second() -> None:
        connection = server.connect(autocommit=False)
        seen.append(connection.execute(SELECT, ("x",)).fetchone())
        seen.append(connection.execute(SELECT, ("y",)).fetchone())
        seen.append((connection.execute(TAKE, (2, "x", 2)).rowcount, round(world.seconds())))
        with pytest.raises(UniqueViolation):
            connection.execute(INSERT, ("y", 2))
        seen.append((connection.execute(f"{SELECT} FOR UPDATE", ("y",)).rows, world.seconds() > 9))
        with pytest.raises(NotImplementedError):
            connection.execute("TRUNCATE t")

    world.spawn(world.process("A"), first)
    world.spawn(world.process("B"), second, after=1.0)
    world.run()
    assert seen == [(3,), None, (0, 5), ([(1,)], True)]
    assert server.committed("t") == {"x": {"name": "x", "n": 1}, "y": {"name": "y", "n": 1}}


def test_a_timeline_folds_repeats():
    def run(client: SimulatedRedis) -> None:
        for _ in range(5):
            client.get("a")
            client.ttl("a")
        client.set("k", 1_700_000_010.5)

    history = rows(play(A=run).world.history)
    assert [line.split() for line in as_text(history).splitlines()[2:]] == [
        ["0.002", "A", "TTL", "a", "-2"],
        ["⋮", "8", "more", "like", "these,", "until", "0.010"],
        ["0.011", "A", "SET", "k", "@10.500", "OK"],
    ]
    assert history[-1].answer == "OK"
