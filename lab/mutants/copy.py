"""A private copy of the tracked files, with servers of its own, in which one bug after the other is
planted and looked for.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import psycopg
import redis

from lab import environment
from lab.mutants.catalogue import Mutant
from lab.mutants.profiles import Profile
from lab.mutants.results import Outcome
from lab.stack import leftovers
from lab.stack.embedded import EmbeddedServers, ServerUrls
from lab.stack.errors import StackError
from lab.stack.folder import make_folder
from lab.stack.private import private_folder

NOT_INHERITED = {
    *("CI", "SHOP_DEMO", "SHOP_URL", "SHOP_PORT", "LOCUST_PORT", "DJANGO_SETTINGS_MODULE"),
    *("DATABASE_URL", "REDIS_URL", "CELERY_BROKER_URL", "PSP_DATABASE_URL"),
}
"""Variables of the present process that would change what a run does; CI would make it long."""

PYTEST = ("-x", "-q", "-p", "no:cacheprovider", "-p", "no:schemathesis", "--reuse-db")
"""Without a plugin that takes long to load, and with tables that earlier runs have left empty."""

GRACE = 15.0
"""Seconds in which a run that is ended may stop what it has started."""

Found = tuple[Outcome, str]
"""What came of a run, and what found the bug or why that is unknown."""


class Ended(Exception):
    """The runs were ended while this one was under way."""


class Copy:
    """The copy; use :func:`private_copy`.

    Args:
        folder: for it.
        urls: of its servers.
    """

    def __init__(self, folder: Path, urls: ServerUrls) -> None:
        self.tree = folder / "tree"
        self._run = make_folder(folder / "run")
        self._urls = urls
        self._databases = 0
        self._shop = self._new_database()
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = threading.Event()

    @contextmanager
    def with_bug(self, mutant: Mutant | None) -> Iterator[None]:
        """Plant a bug inside the block; None plants none."""
        texts = mutant.texts(self.tree) if mutant else {}
        before = {name: (self.tree / name).read_bytes() for name in texts}
        try:
            for name, text in texts.items():
                self._write(name, text.encode())
            yield
        finally:
            for name, content in before.items():
                self._write(name, content)

    def run_tests(self, tests: Sequence[str], limit: float) -> Found:
        """Run pytest; tests that do not end within `limit` seconds have found the bug.

        Raises:
            Ended: by :meth:`end`.
        """
        variables = {**self._urls.as_environment(), "DATABASE_URL": self._shop}
        with redis.Redis.from_url(self._urls.redis) as client:
            client.flushall()
        code, said = self._execute(["-m", "pytest", *PYTEST, *tests], variables, limit)
        if code is None:
            self._shop = self._new_database()  # what was killed may have left rows
            return "found", "did not end in time"
        if code in {0, 1}:
            return ("found", _first_failure(said)) if code else ("missed", "")
        return "unknown", f"pytest ended with {code}: {_last_line(said)}"

    def run_proof(self, profile: Profile, limit: float) -> Found:
        """Run a proof, which starts servers of its own.

        Raises:
            Ended: by :meth:`end`.
        """
        file = self._run / "proof.json"
        file.unlink(missing_ok=True)
        command = ["manage.py", "prove", *profile.arguments, "--json", str(file)]
        code, said = self._execute(command, profile.environment, limit)
        broken = _broken_properties(file)
        if code == 1 and broken:
            return "found", broken
        if code == 0:
            return "missed", ""
        why = f"the proof ended with {code}: {_last_line(said)}"
        return "unknown", "the proof did not end in time" if code is None else why

    def end(self) -> None:
        """End what is running, and refuse to run more."""
        self._ended.set()
        self._kill()

    def _execute(
        self, arguments: Sequence[str], variables: Mapping[str, str], limit: float
    ) -> tuple[int | None, str]:
        """Run Python in the copy; its exit code, None if it did not end in time, and its output."""
        inherited = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
        data = make_folder(self._run / "data")
        output = self._run / "output"
        with output.open("wb") as file:
            if self._ended.is_set():
                raise Ended
            self._process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=self.tree,
                env={
                    **inherited,
                    **variables,
                    "SHOP_DATA": str(data),
                    leftovers.MARK: str(self._run),
                },
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for this command, which ends its runs itself
            )
            try:
                code: int | None = self._process.wait(limit)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                self._kill()
                leftovers.stop(self._run)
        if self._ended.is_set():
            raise Ended
        shutil.rmtree(data, ignore_errors=True)
        return code, output.read_text(encoding="utf-8", errors="replace")

    def _new_database(self) -> str:
        """Make an empty database and return its URL; pytest-django makes its own beside it."""
        self._databases += 1
        name = f"run{self._databases}"
        with psycopg.connect(self._urls.database, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return urlsplit(self._urls.database)._replace(path=f"/{name}").geturl()

    def _kill(self) -> None:
        """End the run's process, which first stops what it has started, and whatever is left."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        started: list[psutil.Process] = []
        with suppress(psutil.NoSuchProcess):
            started = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
        process.kill()
        process.wait()
        for each in started:  # also those in sessions of their own
            with suppress(psutil.NoSuchProcess):
                each.kill()

    def _write(self, name: str, content: bytes) -> None:
        path = self.tree / name
        path.write_bytes(content)
        # Compiled code is told from old by seconds and size, which two edits may share.
        Path(importlib.util.cache_from_source(path)).unlink(missing_ok=True)


@contextmanager
def private_copy() -> Iterator[Copy]:
    """Yield a copy with its servers running; afterwards both are gone.

    Raises:
        StackError: there are no tracked files to copy, or the servers do not start.
    """
    with private_folder() as folder:
        _copy_tracked(make_folder(folder / "tree"))
        servers = EmbeddedServers(folder / "servers")
        copy = Copy(folder, servers.attach())
        try:
            yield copy
        finally:
            copy.end()
            servers.detach()


def _copy_tracked(to: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=environment.PROJECT, capture_output=True, check=False
    )
    if listed.returncode:
        raise StackError(f"Mutants need a Git checkout: {listed.stderr.decode().strip()}")
    for name in filter(None, listed.stdout.decode().split("\0")):
        source = environment.PROJECT / name
        # Not one that is deleted and not yet committed; a link, such as packaging/locking/locking,
        # stays one.
        if source.is_file() or source.is_symlink():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, to / name, follow_symlinks=False)


def _first_failure(said: str) -> str:
    """Name the test that failed, from pytest's short summary."""
    for line in said.rpartition("short test summary info")[2].splitlines():
        if line.startswith(("FAILED ", "ERROR ")):
            return line.split(" - ")[0].split(" ", 1)[1]
    return _last_line(said)


def _last_line(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it said nothing"


def _broken_properties(result: Path) -> str:
    try:
        properties = json.loads(result.read_text())["properties"]
    except (OSError, ValueError):
        return ""
    return ", ".join(each["id"] for each in properties if each["verdict"] == "fail")
