"""Arguments of commands that make no sense are refused before anything starts."""

from __future__ import annotations

import subprocess
import sys

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from lab import environment


@pytest.mark.parametrize(
    ("command", "option", "value"),
    [
        ("bench", "--concurrency", "0"),
        ("prove", "--arrivals", "nan"),
        ("prove", "--minutes", "-1"),
        ("prove", "--report", "/"),
    ],
)
def test_prove_refuses_an_invalid_value(command: str, option: str, value: str) -> None:
    with pytest.raises(CommandError, match=option):
        call_command(command, f"{option}={value}")


@pytest.mark.parametrize(
    ("command", "options", "reason"),
    [
        ("prove", ["--seed=-7"], "--seed"),
        ("prove", ["--compose=ha", "--fault=redis-killed"], "redis-killed: not in containers"),
        ("prove", ["--compose=ha", "--mix=limits"], "--mix limits needs a web process"),
    ],
)
def test_prove_refuses_an_impossible_plan_with_exit_code_2(
    command: str, options: list[str], reason: str
) -> None:
    with pytest.raises(CommandError, match=reason) as refused:
        call_command(command, *options)
    assert refused.value.returncode == 2


def test_soak_without_minutes_is_refused_with_exit_code_2() -> None:
    command = [sys.executable, "lab/soak.py", "--minutes=0"]
    done = subprocess.run(
        command, cwd=environment.PROJECT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "above 0" in done.stderr
