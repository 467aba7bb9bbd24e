"""Ports: the chosen one or the next free one."""

import socket
import subprocess
import sys

import pytest

from development.errors import StackError
from development.ports import asked_or_free, is_free, next_free, release
from shop.environment import PROJECT


@pytest.fixture
def taken_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_port_that_was_asked_for_and_is_taken_is_an_error_that_names_both(
    monkeypatch, taken_port
):
    monkeypatch.setenv("SHOP_PORT", str(taken_port))
    with pytest.raises(StackError, match=f"Port {taken_port}, set in SHOP_PORT, is in use"):
        asked_or_free("SHOP_PORT")


def test_a_free_port_that_was_asked_for_is_used(monkeypatch, taken_port):
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = server.getsockname()[1]
    monkeypatch.setenv("SHOP_PORT", str(free))
    assert asked_or_free("SHOP_PORT") == free


def test_a_default_port_in_use_is_replaced_by_a_free_one(monkeypatch):
    monkeypatch.delenv("SHOP_PORT", raising=False)
    first = asked_or_free("SHOP_PORT")
    with socket.create_server(("127.0.0.1", first)):
        second = asked_or_free("SHOP_PORT")
    assert second > first
    assert is_free(second)


def test_two_commands_that_start_at_once_are_never_given_the_same_port():
    script = """
import sys
from development.ports import next_free
print(next_free(int(sys.argv[1])), flush=True)
sys.stdin.readline()
"""
    first = next_free(28000)
    command = [sys.executable, "-c", script, str(first)]
    with subprocess.Popen(
        command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        claimed = int(other.stdout.readline())
        assert claimed > first
        assert is_free(claimed)  # although nothing listens there yet:
        above = next_free(claimed)
        assert above > claimed
        other.kill()
    release(first, above)
    assert next_free(first) == first
    release(first)
