"""Faults of containers, on servers that answer from a list."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import pytest

from loadtest.compose import EngineFailed, Project
from loadtest.faults import containers
from loadtest.faults.containers import ACTS, Cluster, OneSentinel, RedisPrimary
from loadtest.faults.fault import FaultFailed, NotRecovered, Target

HEALTHY = "\n".join(f"{service} running healthy" for service in containers.WATCHED.elements())
MEMBERS = [
    {"Member": f"postgres{number}", "Role": role}
    for number, role in enumerate(("Replica", "Leader", "Sync Standby"), 1)
]
NETWORKS = {"p_back": {"IPAddress": "172.30.77.12"}, "p_front": {"IPAddress": "172.18.0.5"}}


class Engine(Project):
    """Answers each command whose words contain a key of `says`, and keeps all that it is asked."""

    def __init__(self) -> None:
        super().__init__(Path("env"))
        self.asked: list[str] = []
        self.says = {
            "ps --all --format": HEALTHY,
            "ps --all --quiet": "0123456789abcdef",
            "patronictl": json.dumps(MEMBERS),
            "get-master-addr-by-name": "172.30.77.12 6379",
            "info replication": "role:master\nconnected_slaves:2",
            "info sentinel": "status=ok,address=x,slaves=2,sentinels=3",
            "cluster_status": json.dumps({"running_nodes": ["one", "two", "three"]}),
            "inspect": json.dumps([{"NetworkSettings": {"Networks": NETWORKS}}]),
        }

    def run(self, *words: str, seconds: float = 0) -> str:
        line = " ".join(words)
        self.asked.append(line.removeprefix("docker "))
        return next((answer for key, answer in self.says.items() if key in line), "")


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    engine = Engine()
    monkeypatch.setattr(containers, "Project", lambda settings: engine)
    monkeypatch.setattr(containers, "PAUSE", 0.0)
    return engine


@pytest.fixture
def selling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the shop be away once, and then sell a unit at every look."""
    sold: Iterator[int | None] = chain([None], range(1_000))
    monkeypatch.setattr(containers, "purchases", lambda target: next(sold))


def target() -> Target:
    web = "http://127.0.0.1:8000"
    return Target(web, 0, "", "", "", "", sale=7, compose="env")


def changes(engine: Engine) -> list[str]:
    """Return the commands that do something to a container."""
    verbs = ("stop", "start", "kill", "pause", "unpause", "network")
    return [line for line in engine.asked if line.startswith(verbs)]


@pytest.mark.usefixtures("selling")
@pytest.mark.parametrize(
    ("act", "expected"),
    [
        ("stopped", ["stop {0}", "start {0}"]),
        ("killed", ["kill {0}", "start {0}"]),
        ("paused", ["pause {0}", "unpause {0}"]),
        (
            "cut off",
            [
                "network disconnect p_back {0}",
                "network connect --ip 172.30.77.12 --alias redis2 p_back {0}",
            ],
        ),
    ],
)
def test_container_fault_ends_with_the_reverse(
    act: str, expected: list[str], engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(containers, "ACTS", {act: ACTS[act]})
    fault = RedisPrimary(target(), Random(1))
    fault.inject()
    assert changes(engine) == [expected[0].format("0123456789abcdef")]
    fault.heal()
    assert changes(engine) == [line.format("0123456789abcdef") for line in expected]
    assert (fault.did["service"], fault.did["act"]) == ("redis2", act)


@pytest.mark.usefixtures("engine", "selling")
def test_container_fault_is_drawn_by_its_seed() -> None:
    drawn: list[set[Any]] = []
    for seed in range(12):
        done = set()
        for _ in "12":
            fault = OneSentinel(target(), Random(seed))
            fault.inject()
            done.add((fault.did["service"], fault.did["act"]))
        drawn.append(done)
    assert {len(done) for done in drawn} == {1}
    assert len(set[Any].union(*drawn)) > 4


def test_container_fault_that_was_refused_leaves_nothing_to_undo(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*words: object) -> None:
        raise EngineFailed("refused")

    monkeypatch.setattr(containers, "ACTS", {"paused": lambda *words: (refuse, refuse)})
    fault = OneSentinel(target(), Random(1))
    with pytest.raises(EngineFailed):
        fault.inject()
    fault.heal()


def test_container_fault_fails_where_the_shop_sells_nothing(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(containers, "SELLS_AGAIN", 0.0)
    monkeypatch.setattr(containers, "purchases", lambda target: 5)
    fault = OneSentinel(target(), Random(1))
    with pytest.raises(FaultFailed, match="did not sell again"):
        fault.inject()
    fault.heal()
    assert len(changes(engine)) == 2


@pytest.mark.parametrize(
    ("command", "answer", "reason"),
    [
        ("ps --all --format", HEALTHY.replace("web running healthy", "web running", 1), "web"),
        ("ps --all --format", HEALTHY.replace("redis2 running", "redis2 paused"), "redis2"),
        ("patronictl", json.dumps(MEMBERS[:2]), "Leader, Replica"),
        ("patronictl", "etcd is away", "no agent"),
        ("info replication", "role:master\nconnected_slaves:1", "two replicas"),
        ("info sentinel", "status=ok,slaves=2,sentinels=2", "Sentinels"),
        ("cluster_status", json.dumps({"running_nodes": ["one"]}), "one"),
    ],
)
@pytest.mark.usefixtures("selling")
def test_container_fault_is_over_when_all_servers_are_whole(
    command: str, answer: str, reason: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(containers, "WHOLE", 0.0)
    assert Cluster(engine).shortcoming() == ""
    fault = OneSentinel(target(), Random(1))
    fault.inject()
    engine.says[command] = answer
    with pytest.raises(NotRecovered, match=reason):
        fault.heal()
    engine.says[command] = Engine().says[command]
    fault.heal()


def test_project_reports_what_a_command_said(tmp_path: Path) -> None:
    project = Project(tmp_path / "env")
    project.set(ONE=1)
    assert (tmp_path / "env").read_text() == "ONE=1\n"
    assert project.run("sh", "-c", "echo $COMPOSE_ENV_FILES").strip() == str(tmp_path / "env")
    with pytest.raises(EngineFailed, match="no such thing"):
        project.run("sh", "-c", "echo no such thing; exit 3")


def test_project_hides_the_settings_of_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://another")
    monkeypatch.setenv("DOCKER_HOST", "unix:///kept")
    said = Project(tmp_path / "env").run("sh", "-c", "echo $DATABASE_URL/$DOCKER_HOST")
    assert said.strip() == "/unix:///kept"
