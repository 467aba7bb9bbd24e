"""The embedded servers: durable, protected, shared, and stopped by their last user."""

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
import redis
from django.conf import settings

from development import leftovers
from development.embedded import EmbeddedServers, private_servers
from development.leftovers import private_folder
from development.servers import Command, ServerFailed
from shop.environment import PROJECT

USER = """
import sys
from pathlib import Path
from development.embedded import EmbeddedServers
servers = EmbeddedServers(Path(sys.argv[1]))
servers.attach()
print("attached", flush=True)
sys.stdin.readline()
"""


@contextmanager
def user_of(folder: Path):
    """Start a process that uses the servers of `folder` until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", USER, str(folder)],
        cwd=PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "attached\n"
        try:
            yield process
        finally:
            process.kill()


def leave(process: subprocess.Popen[str]) -> None:
    process.communicate("\n", timeout=60)
    assert process.returncode == 0


def test_servers_refuse_a_wrong_password_and_none():
    server = settings.DATABASES["default"]
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(
            host=server["HOST"], port=server["PORT"], user="shop", password="x", dbname="postgres"
        )
    client = redis.Redis.from_url(settings.REDIS_URL)
    client.connection_pool.connection_kwargs["password"] = None
    with client, pytest.raises(redis.AuthenticationError):
        client.ping()


def test_valkey_that_is_full_refuses_writes_and_keeps_locks():
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}


def test_servers_are_durable_and_their_files_private():
    with private_servers() as servers:
        with psycopg.connect(servers.urls.database) as client:
            for setting in ("fsync", "synchronous_commit", "full_page_writes"):
                assert client.execute(f"SHOW {setting}").fetchone() == ("on",), setting
        secrets = [servers.folder / name for name in ("postgres-password", "valkey-password")]
        for path in [*secrets, servers.folder / "valkey.conf", servers.folder / "supervisord.conf"]:
            assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.long
def test_servers_are_shared_and_the_last_user_stops_them():
    with private_folder() as parent:
        folder = parent / "servers"
        with user_of(folder) as first, user_of(folder) as second:
            supervisor = EmbeddedServers(folder).supervisor
            pids = {state.name: state.pid for state in supervisor.states()}
            leave(first)
            assert {state.name: state.pid for state in supervisor.states()} == pids
            leave(second)
        assert leftovers.find(folder) == []


@pytest.mark.long
def test_servers_of_a_killed_user_are_taken_over():
    with private_folder() as parent:
        folder = parent / "servers"
        with user_of(folder) as victim:
            supervisor = EmbeddedServers(folder).supervisor
            pids = {state.name: state.pid for state in supervisor.states()}
            victim.kill()
        assert leftovers.find(folder) != []
        with user_of(folder) as heir:
            assert {state.name: state.pid for state in supervisor.states()} == pids
            leave(heir)
        assert leftovers.find(folder) == []


@pytest.mark.long
def test_servers_of_a_killed_supervisor_are_replaced_with_data():
    with private_folder() as parent:
        servers = EmbeddedServers(parent / "servers")
        with psycopg.connect(servers.attach().database, autocommit=True) as client:
            client.execute("CREATE TABLE kept (id int)")
        started = leftovers.find(servers.folder)
        (supervisord,) = (p for p in started if "supervisor.supervisord" in p.cmdline())
        assert {state.pid for state in servers.supervisor.states()} < {p.pid for p in started}
        supervisord.kill()
        supervisord.wait(30)
        with user_of(servers.folder) as heir:
            with psycopg.connect(servers.urls.database) as client:
                assert client.execute("SELECT count(*) FROM kept").fetchone() == (0,)
            assert not set(started) & set(leftovers.find(servers.folder))
            servers.detach()
            leave(heir)
        assert leftovers.find(servers.folder) == []


@pytest.mark.long
def test_private_servers_of_a_killed_owner_are_cleared_away():
    script = """
import sys
from development.embedded import private_servers
with private_servers() as servers:
    print(servers.folder, flush=True)
    sys.stdin.readline()
"""
    command = [sys.executable, "-c", script]
    with subprocess.Popen(
        command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        folder = Path(owner.stdout.readline().strip())
        assert leftovers.find(folder) != []
        owner.kill()
    with private_folder():
        assert leftovers.find(folder) == []
        assert not folder.exists()


def test_command_gets_its_own_and_inherited_variables() -> None:
    """Not those of this process: a project that is not ours would read our settings."""
    program = "import os; print(*(f'{name}={text}' for name, text in os.environ.items()))"
    command = Command("printer", [sys.executable, "-c", program], {"OWN": "1"})
    command.inherited = {"GIVEN": "2"}
    try:
        command.begin()
        assert command.process is not None
        assert command.process.wait(60) == 0
        printed = command.log.read_text().split()
    finally:
        command.remove()
    assert {"OWN=1", "GIVEN=2"} <= set(printed)
    assert [each for each in printed if each.startswith("PATH=")] == []


def test_server_that_ends_at_its_start_is_named() -> None:
    command = Command("broken", [sys.executable, "-c", "raise SystemExit('no room')"])
    with pytest.raises(ServerFailed, match=r"(?s)broken did not start.*no room"), command:
        pass
    assert not command.home.exists()
