"""Faults: drawing, injecting, healing and logging them, and the proxy that some of them command."""

from __future__ import annotations

import json
import socket
import socketserver
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import ClassVar, NamedTuple

import pytest

from loadtest.checker.evidence import Evidence
from loadtest.fault_needs import CLOCK, DISK, FAILPOINTS
from loadtest.faults import FAULTS, Chaos, Fault, FaultFailed, Target, chaos, draw, left_out
from loadtest.faults.fault import Control, NotRecovered, wait_until
from loadtest.faults.proxy import SSL_REQUEST, Frontend
from loadtest.files import RunFiles
from loadtest.tests.trivial_server import in_thread

TARGET = Target("http://127.0.0.1:1", 0, "", "", "", "")


class Planted(Fault):
    name = "planted"
    what = "nothing"
    expected = "nothing"
    lasts = (0.0, 0.0)
    happened: ClassVar[list[str]] = []
    fails: ClassVar[int] = 0

    def inject(self) -> None:
        self.happened.append("injected")
        self.did["drawn"] = self.random.random()
        if type(self).fails:
            type(self).fails -= 1
            raise FaultFailed("not now")

    def heal(self) -> None:
        self.happened.append("healed")


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> type[Planted]:
    monkeypatch.setitem(FAULTS, "planted", Planted)
    monkeypatch.setattr(chaos, "BETWEEN", (0.0, 0.01))
    monkeypatch.setattr(chaos, "REST", 0.01)
    Planted.happened.clear()
    Planted.fails = 0
    return Planted


def started(folder: Path, *, times: int = 0) -> Chaos:
    trouble = Chaos(["planted"], TARGET, 3, folder / "faults.log", times=times)
    trouble.start()
    return trouble


def logged(log: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_fault_plan_is_repeated_by_its_seed() -> None:
    def first(seed: int) -> list[tuple[float, str, float]]:
        drawn = islice(draw(list(FAULTS), seed), 60)
        return [(pause, name, random.random()) for pause, name, random in drawn]

    assert first(7) == first(7)
    assert first(7) != first(8)


def test_fault_plan_has_every_fault_before_a_repeat() -> None:
    drawn = list(islice(draw(list(FAULTS), 1), 3 * len(FAULTS)))
    assert all(5 <= pause <= 15 for pause, _, _ in drawn)
    for number in range(3):
        part = drawn[number * len(FAULTS) : (number + 1) * len(FAULTS)]
        assert sorted(name for _, name, _ in part) == sorted(FAULTS)


def test_fault_is_healed_and_logged_for_the_checker(planted: type[Planted], tmp_path: Path) -> None:
    files = RunFiles(tmp_path)
    trouble = started(tmp_path)
    wait_until("three faults", lambda: len(trouble.injected) >= 3)
    trouble.stop()
    assert planted.happened == ["injected", "healed"] * len(trouble.injected)
    lines = logged(files.faults)
    assert len(lines) == len(trouble.injected)
    assert all(line["did"] and not line["error"] for line in lines)
    with Evidence(enough={}) as evidence:
        evidence.load(files)
        assert evidence.value('SELECT count(*) FROM fault WHERE start <= "end"') == len(lines)


def test_fault_that_needs_stock_is_logged_before_it_strikes(
    planted: type[Planted], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it is the current one, an empty sale is restocked at once."""
    monkeypatch.setattr(planted, "wants_stock", True)
    monkeypatch.setattr(chaos, "RESTOCKED", 60.0)
    trouble = started(tmp_path)
    wait_until("it is current", lambda: trouble.current is not None)
    assert planted.happened == []
    trouble.stop()
    assert planted.happened == ["injected", "healed"]


@pytest.mark.parametrize(("fails", "injected"), [(2, 1), (99, 0)])
def test_fault_that_fails_is_healed_and_tried_again(
    fails: int, injected: int, planted: type[Planted], tmp_path: Path
) -> None:
    planted.fails, failed = fails, min(fails, chaos.TRIES)
    trouble = started(tmp_path, times=1)
    wait_until("it is through", lambda: trouble.done)
    assert planted.happened == ["injected", "healed"] * (failed + injected)
    assert (len(trouble.failed), len(trouble.injected)) == (failed, injected)
    errors = [line["error"] for line in logged(tmp_path / "faults.log")]
    assert errors == ["FaultFailed: not now"] * failed + [""] * injected


@pytest.mark.parametrize("when", ["before", "after"])
def test_target_that_does_not_recover_gets_no_further_fault(
    when: str, planted: type[Planted], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise NotRecovered("a standby stands still")

    monkeypatch.setattr(planted, "inject" if when == "before" else "heal", fail)
    trouble = started(tmp_path)
    wait_until("it is through", lambda: trouble.done)
    [failed] = trouble.failed
    assert (trouble.injected, failed.healed) == ([], False)
    assert failed.error.endswith("NotRecovered: a standby stands still")


@pytest.mark.parametrize(("abandoned", "healed"), [(True, []), (False, ["healed"])])
def test_fault_run_waits_for_healing_when_it_is_stopped(
    abandoned: bool,
    healed: list[str],
    planted: type[Planted],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Healing starts servers, on hosts that are being removed."""
    monkeypatch.setattr(planted, "lasts", (60.0, 60.0))
    trouble = started(tmp_path)
    wait_until("it is on", lambda: planted.happened == ["injected"])
    if abandoned:
        trouble.abandon()
    trouble.stop()
    assert planted.happened == ["injected", *healed]
    assert trouble.current is None


def test_target_names_faults_that_must_be_left_out() -> None:
    assert left_out(["web-killed", "clock-stepped", "disk-full"], TARGET.has()) == {
        "clock-stepped": CLOCK,
        "disk-full": DISK,
    }
    assert FAILPOINTS in left_out(["holder-paused"], TARGET.has())["holder-paused"]


def test_target_is_written_and_read_as_a_file(tmp_path: Path) -> None:
    TARGET.write(tmp_path / "target.json")
    assert Target.read(tmp_path / "target.json") == TARGET
    assert (tmp_path / "target.json").stat().st_mode & 0o077 == 0, "it holds passwords"


# The proxy is slow, mute and cut off on command, and sees a client of PostgreSQL commit.


def first(code: int, body: bytes = b"") -> bytes:
    return (8 + len(body)).to_bytes(4, "big") + code.to_bytes(4, "big") + body


def message(kind: bytes, body: bytes) -> bytes:
    return kind + (4 + len(body)).to_bytes(4, "big") + body


START = first(SSL_REQUEST) + first(196608, b"user\0shop\0\0")
COMMIT = message(b"Q", b"COMMIT\0")
PREPARED = message(b"P", b"_pg3_1\0COMMIT\0\0\0")
LAST = message(b"Q", b"UPDATE shop SET sold = 'COMMIT; ';COMMIT\0")
OTHER = message(b"Q", b"SELECT 'COMMIT'\0") + message(b"B", b"COMMIT\0")


@pytest.mark.parametrize("commit", [COMMIT, PREPARED, message(b"Q", b"commit;\0"), LAST])
def test_commit_is_seen_among_other_messages(commit: bytes) -> None:
    frontend = Frontend()
    assert not frontend.commits(START + OTHER)
    assert frontend.commits(OTHER + commit + OTHER)
    assert not frontend.commits(OTHER)


def test_commit_is_seen_when_it_comes_byte_by_byte() -> None:
    frontend = Frontend()
    seen = [frontend.commits(bytes([byte])) for byte in START + OTHER + COMMIT]
    assert seen == [False] * (len(seen) - 1) + [True]


@contextmanager
def echo(name: bytes) -> Iterator[int]:
    """A server that answers whatever it is told with its name before it; gives its port."""

    class Answer(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(ConnectionError):
                while data := self.request.recv(4096):
                    self.request.sendall(name + data)

    with in_thread(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answer)) as server:
        yield server.server_address[1]


class Proxy(NamedTuple):
    port: int
    control: Control

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=5)


@contextmanager
def proxying(to: int, *options: str) -> Iterator[Proxy]:
    command = [sys.executable, "-m", "loadtest.faults.proxy", "--to", str(to), *options]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        ports = json.loads(process.stdout.readline())
        yield Proxy(ports["port"], Control(ports["control"]))
        process.stdin.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0, "it ends with its standard input"


@pytest.fixture
def proxied() -> Iterator[Proxy]:
    with echo(b"a") as to, proxying(to) as proxy:
        yield proxy


def ask(connection: socket.socket, text: bytes) -> bytes:
    connection.sendall(text)
    return connection.recv(4096)


def test_slow_replies_come_late_and_in_order(proxied: Proxy) -> None:
    with proxied.connect() as connection:
        assert ask(connection, b"1") == b"a1"
        proxied.control.tell(mode="slow", seconds=0.3)
        start = time.monotonic()
        connection.sendall(b"2")
        wait_until("the reply is held back", lambda: proxied.control.tell()["delayed"] == 1)
        proxied.control.tell(mode="pass")
        connection.sendall(b"3")
        got = b""
        while len(got) < 4:
            got += connection.recv(4096)
        assert got == b"a2a3", "a later reply must not overtake a delayed one"
        assert time.monotonic() - start >= 0.3


def test_lost_replies_are_lost_and_their_connections_end_with_it(proxied: Proxy) -> None:
    with proxied.connect() as connection:
        proxied.control.tell(mode="mute")
        connection.sendall(b"1")
        wait_until("the reply is lost", lambda: proxied.control.tell()["muted"] == 1)
        proxied.control.tell(mode="pass")
        with pytest.raises(ConnectionResetError):
            connection.recv(4096)
    with proxied.connect() as connection:
        assert ask(connection, b"2") == b"a2"


def test_reset_cuts_off_the_old_and_the_new(proxied: Proxy) -> None:
    with proxied.connect() as old:
        assert ask(old, b"1") == b"a1"
        proxied.control.tell(mode="reset")
        with pytest.raises(ConnectionResetError):
            old.recv(4096)
        with pytest.raises(ConnectionError), proxied.connect() as new:
            assert new.recv(4096) != b"", "an end instead of a reset"
    proxied.control.tell(mode="pass")
    with proxied.connect() as connection:
        assert ask(connection, b"2") == b"a2"


def test_proxy_switch_moves_all_clients_to_the_other_server(proxied: Proxy) -> None:
    with echo(b"b") as other, proxied.connect() as old:
        assert ask(old, b"1") == b"a1"
        proxied.control.tell(mode="pass", port=other)
        with pytest.raises(ConnectionResetError):
            old.recv(4096)
        with proxied.connect() as new:
            assert ask(new, b"2") == b"b2"


def test_proxy_loses_the_reply_or_the_commit_in_turn() -> None:
    with echo(b"") as to, proxying(to, "--postgres") as proxy:
        proxy.control.tell(mode="pass", cuts=2)
        for _ in range(2):
            with proxy.connect() as connection:
                assert ask(connection, START) == START
                with pytest.raises(ConnectionResetError):
                    ask(connection, COMMIT)
        counts = proxy.control.tell()
        assert (counts["cut"], counts["replies_lost"], counts["commits_lost"]) == (2, 1, 1)
        with proxy.connect() as connection:
            assert ask(connection, START + COMMIT) == START + COMMIT, "there were two to be cut"


def test_proxy_ends_quietly_while_a_connection_is_open() -> None:
    with ExitStack() as cleanup, echo(b"") as to, proxying(to) as proxy:
        connection = cleanup.enter_context(proxy.connect())
        connection.sendall(b"x")
        assert connection.recv(1) == b"x"


def test_proxy_that_is_gone_makes_its_fault_fail() -> None:
    with echo(b"") as to, proxying(to) as proxy:
        pass
    with pytest.raises(FaultFailed, match="does not answer"):
        proxy.control.tell()
