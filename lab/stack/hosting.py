"""Install a shop, fill its database and run its servers, as its `install.py` describes.

Everything is below one folder per shop: packages, database, logs. What is complete is used again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from development import StackError
from development.embedded import EmbeddedServers, ServerUrls
from development.folder import alone, kept_secret, make_folder
from development.ports import next_free, release
from development.processes import serves
from development.servers import postgres_programs
from development.signals import shielded
from development.supervisor import Program, Supervisor
from lab import environment
from loadtest import shops
from loadtest.shops.setup import FILLED, Setup, setup_of

FIRST_PORT = 8300
STEP_SECONDS = 1200
"""A step's time limit: npm installs and builds a large shop within it on two slow cores."""
READY_SECONDS = 180
TELL_EVERY = 10
"""Seconds between two messages about a step that goes on."""
SHOWN = 90
"""Characters that are shown of a step's command."""
NODE = 20
"""The oldest version of Node.js that all shops here support."""

REPOSITORY = Path(__file__).resolve().parents[2]
ADAPTERS = Path(shops.__file__).parent


def missing(setup: Setup) -> str:
    """Return what this machine lacks for a shop, in one line; empty if nothing."""
    if not setup.node:
        return ""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        return f"it needs Node.js {NODE} or newer with npm, and there is none"
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    major = said.strip().removeprefix("v").partition(".")[0]
    if not major.isdigit() or int(major) < NODE:
        return f"it needs Node.js {NODE} or newer; here is {said.strip() or 'another program'}"
    return ""


@contextmanager
def hosted(
    name: str, *, workers: int, row: str = "", tell: Callable[[str], None]
) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Run a shop; yield its address and the environment that its adapter needs.

    Args:
        workers: processes of its web server, where the shop has such a setting.
        row: which of the setup's documented settings to add.
        tell: called with progress messages.

    Raises:
        StackError: a step failed or took too long; with its last lines.
    """
    if lack := missing(setup_of(name)):
        raise StackError(f"{name} is left out: {lack}.")
    folder = make_folder(environment.data_folder() / "shops" / name)
    with alone(folder / "command.lock") as free:
        if not free:
            raise StackError(f"{name} is in use by another command.")
        if not _is_kept(folder, name):
            _empty(folder)
        servers, supervisor = EmbeddedServers(folder / "servers"), Supervisor(folder / "run")
        port = next_free(FIRST_PORT)
        try:
            tell("starting its database")
            shop = _Shop(name, folder, servers.attach(), port, workers, row, tell)
            shop.prepare()
            tell("starting its servers")
            shop.start(supervisor)
            yield f"http://127.0.0.1:{port}", shop.own_variables
        finally:
            with shielded():
                supervisor.stop()
                servers.detach()
                release(port)


def _is_kept(folder: Path, name: str) -> bool:
    """Whether the folder holds this description of the shop, and nothing else can have changed."""
    digest = hashlib.sha256()
    described = (ADAPTERS / name / "install.py", *sorted((ADAPTERS / name).glob("project/*")))
    for path in described:
        if path.is_file():
            digest.update(path.read_bytes())
    stamp = folder / "description"
    same = stamp.exists() and stamp.read_text() == digest.hexdigest()
    stamp.write_text(digest.hexdigest())
    # What this repository serves may have other tables than last time.
    return same and setup_of(name).folder != "{repository}"


def _empty(folder: Path) -> None:
    """Delete what another description of the shop has left behind."""
    EmbeddedServers(folder / "servers").supervisor.stop()
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in {"description", "command.lock"}:
            path.unlink()


class _Shop:
    """A shop whose database runs.

    Attributes:
        own_variables: environment variables that the setup and its row name, and the database.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        urls: ServerUrls,
        port: int,
        workers: int,
        row: str,
        tell: Callable[[str], None],
    ) -> None:
        self._setup = setup = setup_of(name)
        self._folder, self._tell, self._files = folder, tell, folder / "project"
        url, own = urlsplit(urls.database), folder / "venv" / "bin"
        self._values = {
            "bin": str(own if setup.python else self._files / "node_modules" / ".bin"),
            "python": str(own / "python") if setup.python else sys.executable,
            "port": str(port),
            "workers": str(workers),
            "database": urls.database,
            "db_host": url.hostname or "",
            "db_port": str(url.port),
            "db_user": url.username or "",
            "db_password": url.password or "",
            "db_name": url.path.removeprefix("/"),
            "redis": urls.redis,
            "psql": str(postgres_programs() / "psql"),
            "secret": kept_secret("secret", folder),
            "files": str(self._files),
            "repository": str(REPOSITORY),
        }
        variables = {**setup.environment, **(setup.rows[row] if row else {})}
        self.own_variables = {
            **{name: value.format_map(self._values) for name, value in variables.items()},
            "SHOP_DATABASE_URL": urls.database,
        }
        self._variables = {**os.environ, **self.own_variables}
        self._where = Path(setup.folder.format_map(self._values))

    def prepare(self) -> None:
        """Install the packages and fill the database, each once."""
        setup, files, folder = self._setup, self._files, self._folder
        steps: list[tuple[str, ...]] = []
        if not (folder / "installed").exists():
            source = ADAPTERS / folder.name / "project"
            if source.exists():
                shutil.copytree(source, files, dirs_exist_ok=True)
            files.mkdir(exist_ok=True)
            if setup.python:
                steps.append((sys.executable, "-m", "venv", str(folder / "venv")))
                steps.append(("{python}", "-m", "pip", "install", "-q", *setup.python))
            if setup.node:
                steps.append(("npm", "install", "--no-fund", "--no-audit", *setup.node))
            self._run("installing", steps, files)
            (folder / "installed").touch()
        if not (folder / FILLED).exists():
            self._run("preparing", setup.steps, self._where)
            (folder / FILLED).touch()

    def start(self, supervisor: Supervisor) -> None:
        """Start the servers; return when the shop answers."""
        programs = [
            Program(name, self._command(words), folder=self._where)
            for name, words in self._setup.serve.items()
        ]
        supervisor.start(programs, self._variables)
        page = f"http://127.0.0.1:{self._values['port']}{self._setup.ready}"
        # A page that the shop lacks is an answer, too.
        ready = partial(serves, page, below=500)
        supervisor.wait_until("web", ready, READY_SECONDS, may_die=False)

    def _command(self, words: Sequence[str]) -> list[str]:
        return [word.format_map(self._values) for word in words]

    def _run(self, doing: str, steps: Sequence[Sequence[str]], where: Path) -> None:
        log = self._folder / "install.log"
        for number, step in enumerate(steps, 1):
            command = self._command(step)
            shown = _shown(command, hide=self._values["db_password"])
            what = f"{doing}, step {number} of {len(steps)}: {shown}"
            self._tell(what)
            with (
                log.open("ab") as file,
                subprocess.Popen(
                    command,
                    cwd=where,
                    env=self._variables,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=file,
                ) as running,
            ):
                self._wait_for(running, what, log)
            if running.returncode:
                last = log.read_text(errors="replace").strip().splitlines()[-5:]
                raise StackError(f"{shown} failed ({log}):\n" + "\n".join(last))

    def _wait_for(self, running: subprocess.Popen[bytes], what: str, log: Path) -> None:
        """Wait for a step, and say every few seconds for how long it has been going on.

        Raises:
            StackError: it took too long, and was killed.
        """
        began = time.monotonic()
        while (seconds := time.monotonic() - began) < STEP_SECONDS:
            with suppress(subprocess.TimeoutExpired):
                running.wait(min(TELL_EVERY, STEP_SECONDS - seconds))
                return
            written = log.read_text(errors="replace").strip().splitlines()
            last = f"; {written[-1][:80]}" if written else ""
            self._tell(f"{what}: {time.monotonic() - began:.0f} s so far{last}")
        running.kill()
        raise StackError(f"{what} took more than {STEP_SECONDS} s; see {log}")


def _shown(command: Sequence[str], *, hide: str) -> str:
    """Return a command as it is shown: the program's name, and as many words as fit in a line.

    Args:
        command: the program and its arguments.
        hide: a password, which must not stand in a log.
    """
    text = " ".join([Path(command[0]).name, *command[1:]])
    if hide:
        text = text.replace(hide, "…")
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
