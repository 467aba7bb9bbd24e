"""The commands of the tutorial, on a real demo, print what the tutorial shows."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from development import leftovers
from development.leftovers import private_folder
from development.tests.test_system_errors import variables as alone
from lab.environment import PROJECT
from lab.stack.tests.test_demo import RunningDemo
from shop.tests.processes import run

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

TUTORIAL = PROJECT / "docs" / "index.md"
BLOCK = re.compile(r"(?ms)^```(sh|text)\n(.*?)^```$")
ENDED = "-- the block has ended --"


def steps() -> list[tuple[str, str]]:
    """Return the page's commands, each with the output that the page shows, or ""."""
    found: list[tuple[str, str]] = []
    for kind, text in BLOCK.findall(TUTORIAL.read_text(encoding="utf-8")):
        if kind == "sh":
            found.append((text, ""))
        else:
            found[-1] = (found[-1][0], text)
    return found


def lines(text: str) -> list[str]:
    """Return the lines that are not empty, without the spaces at their ends."""
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def matches(shown: str, printed: str) -> bool:
    """Return whether a line is as the page shows it, where `…` stands for anything."""
    return re.fullmatch(".*".join(map(re.escape, shown.split("…"))), printed) is not None


@pytest.fixture
def folder() -> Iterator[Path]:
    with private_folder() as parent:
        yield parent / "data"
        left = leftovers.find(parent)
        leftovers.stop(parent)
    assert left == []


def test_tutorial_commands_print_what_it_shows(folder):
    demo = RunningDemo(folder)
    try:
        demo.wait_until_open()
        printed = play(demo.url, folder)
    finally:
        demo.end(signal.SIGINT)
    for (command, shown), output in zip(steps(), printed, strict=True):
        wanted, got = lines(shown), lines(output)
        assert len(wanted) == len(got), f"{command}\n{output}"
        for line, actual in zip(wanted, got, strict=True):
            assert matches(line, actual), f"{command}\n{line}\n{actual}"


def play(url: str, folder: Path) -> list[str]:
    """Run all commands in one shell, as a reader does; return what each block printed."""
    script = "".join(f"{command}\necho '{ENDED}'\n" for command, _ in steps())
    script = script.replace("http://127.0.0.1:8000", url).replace(".data", str(folder))
    done = run("sh", "-c", script, env=alone(SHOP_DATA=str(folder)), seconds=400)
    assert done.stderr == "", done.stderr
    return done.stdout.split(f"{ENDED}\n")[:-1]
