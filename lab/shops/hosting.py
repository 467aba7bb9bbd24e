"""Install a shop, fill its database and run its servers, as its `install.py` describes.

Everything is below one folder per shop: packages, database, logs. What is complete is used again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

from development import postgres
from development.embedded import EmbeddedServers
from development.errors import StackError
from development.folder import alone, kept_secret, make_folder
from development.ports import next_free, release
from development.signals import shielded
from development.supervisor import Program, Supervisor
from lab import environment
from loadtest import shops
from loadtest.shops.setup import FILLED, Setup, setup_of

FIRST_PORT = 8300
STEP_SECONDS = 1200
"""A step's time limit: npm installs and builds a large shop within it on two slow cores."""
READY_SECONDS = 180
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
        with _served(name, folder, workers, row, tell) as served:
            yield served


@contextmanager
def _served(
    name: str, folder: Path, workers: int, row: str, tell: Callable[[str], None]
) -> Iterator[tuple[str, Mapping[str, str]]]:
    setup, servers = setup_of(name), EmbeddedServers(folder / "servers")
    port, supervisor = next_free(FIRST_PORT), Supervisor(folder / "run")
    try:
        tell("starting its database")
        urls = servers.attach()
        values = _values(name, folder, urls.database, urls.redis, port, workers)
        variables = {**setup.environment, **(setup.rows[row] if row else {})}
        of_shop = {key: value.format_map(values) for key, value in variables.items()}
        of_shop |= {"SHOP_DATABASE_URL": urls.database}
        complete = {**os.environ, **of_shop}
        _prepare(setup, folder, values, complete, tell)
        tell("starting its servers")
        _start(setup, supervisor, values, complete)
        yield f"http://127.0.0.1:{port}", of_shop
    finally:
        with shielded():
            supervisor.stop()
            servers.detach()
            release(port)


def _values(
    name: str, folder: Path, database: str, redis: str, port: int, workers: int
) -> dict[str, str]:
    url = urlsplit(database)
    own = folder / "venv" / "bin"
    has_own = bool(setup_of(name).python)
    return {
        "bin": str(own if has_own else folder / "project" / "node_modules" / ".bin"),
        "python": str(own / "python") if has_own else sys.executable,
        "port": str(port),
        "workers": str(workers),
        "database": database,
        "db_host": url.hostname or "",
        "db_port": str(url.port),
        "db_user": url.username or "",
        "db_password": url.password or "",
        "db_name": url.path.removeprefix("/"),
        "redis": redis,
        "psql": str(postgres.programs() / "psql"),
        "secret": kept_secret("secret", folder),
        "files": str(folder / "project"),
        "repository": str(REPOSITORY),
    }


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


def _prepare(
    setup: Setup,
    folder: Path,
    values: Mapping[str, str],
    variables: Mapping[str, str],
    tell: Callable[[str], None],
) -> None:
    """Install the packages and fill the database, each once."""
    files, log = Path(values["files"]), folder / "install.log"
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
        _run(steps, "installing", str(files), values, variables, log, tell)
        (folder / "installed").touch()
    if not (folder / FILLED).exists():
        where = setup.folder.format_map(values)
        _run(setup.steps, "preparing", where, values, variables, log, tell)
        (folder / FILLED).touch()


def _run(
    steps: list[tuple[str, ...]] | tuple[tuple[str, ...], ...],
    doing: str,
    where: str,
    values: Mapping[str, str],
    variables: Mapping[str, str],
    log: Path,
    tell: Callable[[str], None],
) -> None:
    for number, step in enumerate(steps, 1):
        tell(f"{doing}, step {number} of {len(steps)}")
        command = [word.format_map(values) for word in step]
        with log.open("ab") as file:
            try:
                result = subprocess.run(
                    command,
                    cwd=where,
                    env=variables,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=file,
                    timeout=STEP_SECONDS,
                    check=False,
                )
            except subprocess.TimeoutExpired as error:
                raise StackError(f"{step[0]} took more than {STEP_SECONDS} s; see {log}") from error
        if result.returncode:
            last = log.read_text(errors="replace").strip().splitlines()[-5:]
            raise StackError(f"{' '.join(command[:4])} failed ({log}):\n" + "\n".join(last))


def _start(
    setup: Setup,
    supervisor: Supervisor,
    values: Mapping[str, str],
    variables: Mapping[str, str],
) -> None:
    where = Path(setup.folder.format_map(values))
    programs = [
        Program(name, [word.format_map(values) for word in command], folder=where)
        for name, command in setup.serve.items()
    ]
    supervisor.start(programs, variables)
    ready = partial(answers, f"http://127.0.0.1:{values['port']}{setup.ready}")
    supervisor.wait_until("web", ready, READY_SECONDS, may_die=False)


def answers(url: str) -> bool:
    """Whether the shop answers; a page that it lacks is an answer, too."""
    try:
        with urlopen(url, timeout=5):
            return True
    except HTTPError as error:
        with error:
            return error.code < 500
    except OSError:
        return False
