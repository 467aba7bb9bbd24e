"""A group of processes kept alive by supervisord, and reports of those that died.

supervisord (https://supervisord.org) starts, restarts and logs the programs. This module writes
its configuration, talks to it over a socket that only this user can open, and cleans up after any
crash.
"""

from __future__ import annotations

import hashlib
import shlex
import subprocess
import sys
import time
import xmlrpc.client
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any, Self

from supervisor.xmlrpc import SupervisorTransport

from development import StackError, leftovers
from development.files import write_private
from development.folder import make_folder, private_temporary
from development.servers import Server

# A Unix socket's path may have 104 bytes on macOS and 108 on Linux; supervisord first binds to
# the path with its pid appended.
SOCKET_PATH_LIMIT = 88
LOG_LINES = 10  # shown of a dead process
START_SECONDS = 15
POLL = 0.05  # seconds between polls of a process that is starting or stopping


@dataclass(frozen=True)
class Program:
    """A process to keep alive.

    Args:
        command: the program and its arguments, without a shell.
        environment: variables in addition to the supervisor's.
        user: system user to run as (needs root); by default the same user.
        folder: working folder; by default the supervisor's.
        stop_signal: the signal that asks it to end ("TERM", "INT").
        stop_seconds: after these it is killed.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    folder: Path | None = None
    stop_signal: str = "TERM"
    stop_seconds: int = 10

    @classmethod
    def of(cls, server: Server) -> Self:
        """Make the server's files, and return it as a program.

        Raises:
            StackError: the files cannot be made.
        """
        server.prepare()
        return cls(
            name=server.name,
            command=server.command(),
            environment=server.environment(),
            user=server.user,
            folder=server.folder,
            stop_signal=server.stop_signal.name.removeprefix("SIG"),
            stop_seconds=server.stop_seconds,
        )


@dataclass(frozen=True)
class ProcessState:
    """A program's state in supervisord, and its pid (0 while it is not running)."""

    name: str
    state: str
    pid: int


class Supervisor:
    """supervisord for a folder with its configuration, socket and logs."""

    def __init__(self, folder: Path) -> None:
        self.folder = make_folder(folder)
        self.logs = make_folder(folder / "logs")

    # --- life ---------------------------------------------------------------------------------

    def start(self, programs: Sequence[Program], environment: Mapping[str, str]) -> None:
        """Start `programs`, after cleaning up what a killed run left in this folder.

        Args:
            environment: the complete environment of supervisord and so of every program.

        Raises:
            StackError: supervisord did not start.
        """
        leftovers.stop(self.folder)
        configuration = self.folder / "supervisord.conf"
        write_private(configuration, _configuration(self, programs))
        # It becomes a daemon with its own session: Ctrl-C reaches only the foreground command,
        # which stops everything in order, and servers may outlive the command that started them.
        result = subprocess.run(
            [sys.executable, "-m", "supervisor.supervisord", "-c", str(configuration)],
            env={**environment, leftovers.MARK: str(self.folder)},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            start_new_session=True,
        )
        if result.returncode != 0:
            raise StackError(f"supervisord did not start: {result.stdout}{result.stderr}")
        deadline = time.monotonic() + START_SECONDS
        while not self.is_running():
            if time.monotonic() > deadline:
                raise self._failed("supervisord", "does not answer")
            time.sleep(POLL)

    def stop(self) -> None:
        """Stop every program, then supervisord, then what is left, in bounded time."""
        if self.is_running():
            with suppress(StackError):  # it is ending already
                self._call("stopAllProcesses")  # in parallel: `shutdown` stops one after another
                self._call("shutdown")
            leftovers.wait(self.folder, seconds=60)
        leftovers.stop(self.folder)
        self.socket.unlink(missing_ok=True)

    def is_running(self) -> bool:
        """Return whether supervisord answers."""
        try:
            return bool(self._call("getState")["statename"] == "RUNNING")
        except StackError:
            return False

    # --- one program --------------------------------------------------------------------------

    def wait_until(
        self, name: str, ready: Callable[[], bool], seconds: float, *, may_die: bool = True
    ) -> None:
        """Return when `ready()` is true for the program `name`.

        Args:
            may_die: tolerate deaths while the supervisor restarts it (a database needs that after
                a crash); otherwise a death is an error.

        Raises:
            StackError: supervisord gave up or is gone, or `seconds` passed.
        """
        deadline = time.monotonic() + seconds
        pids = set()
        while not ready():
            try:
                state = self.state(name)
            except StackError as error:
                raise self._failed(name, f"is lost: {error}") from error
            pids.add(state.pid)
            died = len(pids - {0}) > 1 or state.state in {"BACKOFF", "EXITED"}
            if state.state == "FATAL" or (died and not may_die):
                raise self._failed(name, "does not start")
            if time.monotonic() > deadline:
                raise self._failed(name, f"is not ready after {seconds:g} s")
            time.sleep(POLL)

    def _failed(self, name: str, reason: str) -> StackError:
        log = self.log_tail(name) or "(it wrote nothing)"
        return StackError(f"{name} {reason}. Its last log lines:\n{log}")

    def state(self, name: str) -> ProcessState:
        """Return the state of the program `name`.

        Raises:
            StackError: supervisord does not answer, or knows no program of that name.
        """
        return _state(self._call("getProcessInfo", name))

    def states(self) -> list[ProcessState]:
        """Return the state of every program.

        Raises:
            StackError: supervisord does not answer.
        """
        return [_state(information) for information in self._call("getAllProcessInfo")]

    def start_program(self, name: str) -> None:
        """Start the program `name` again after `stop_program` or after supervisord gave up."""
        self._call("startProcess", name, False)

    def stop_program(self, name: str, *, wait: bool = True) -> None:
        """Stop the program `name` and keep it stopped.

        Args:
            wait: return when it has ended; otherwise at once.
        """
        self._call("stopProcess", name, wait)

    def log_file(self, name: str) -> Path:
        """Return the file with the output of the program `name`."""
        return self.logs / f"{name}.log"

    def log_tail(self, name: str) -> str:
        """Return the last lines of the program's output."""
        path = self.log_file(name)
        if not path.exists():
            return ""
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 16_384))
            text = file.read().decode(errors="replace")
        return "\n".join(text.splitlines()[-LOG_LINES:])

    # --- talking to supervisord ----------------------------------------------------------------

    @property
    def socket(self) -> Path:
        """The Unix socket, in a short private folder if the data folder's path is too long."""
        path = self.folder / "supervisor.sock"
        if len(str(path).encode()) <= SOCKET_PATH_LIMIT:
            return path
        digest = hashlib.sha256(str(self.folder).encode()).hexdigest()[:12]
        return private_temporary("sockets") / digest

    def _call(self, method: str, *arguments: object) -> Any:
        # A new connection per call: after a failed call, the old one is unusable.
        transport = SupervisorTransport(None, None, f"unix://{self.socket}")
        try:
            server = xmlrpc.client.ServerProxy("http://127.0.0.1", transport=transport)
            return getattr(server.supervisor, method)(*arguments)
        except xmlrpc.client.Fault as fault:
            raise StackError(
                f"supervisord refuses {method}{arguments}: {fault.faultString}"
            ) from fault
        except (OSError, HTTPException, xmlrpc.client.Error) as error:
            raise StackError(f"supervisord does not answer ({error})") from error
        finally:
            transport.close()


def _state(information: Mapping[str, Any]) -> ProcessState:
    return ProcessState(information["name"], information["statename"], information["pid"])


def _configuration(supervisor: Supervisor, programs: Sequence[Program]) -> str:
    """Return supervisord's configuration.

    Percent signs are doubled because it expands %(name)s. Log paths are relative to its working
    folder: it expands them twice and would fail on a percent sign in the folder's name.
    """

    def quoted(text: object) -> str:
        return str(text).replace("%", "%%")

    sections = [
        "[supervisord]",
        "logfile = logs/supervisord.log",
        "logfile_maxbytes = 1MB\nlogfile_backups = 1",
        "pidfile = supervisord.pid",
        f"[unix_http_server]\nfile = {quoted(supervisor.socket)}\nchmod = 0700",
        "[rpcinterface:supervisor]",
        "supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface",
        # For `supervisorctl -c FILE`, with which somebody stops and starts a server by hand.
        f"[supervisorctl]\nserverurl = unix://{quoted(supervisor.socket)}",
    ]
    for program in programs:
        environment = ",".join(
            f'{key}="{quoted(value)}"' for key, value in program.environment.items()
        )
        sections += [
            f"[program:{program.name}]",
            f"command = {quoted(shlex.join(program.command))}",
            f"environment = {environment}",
            f"stopsignal = {program.stop_signal}",
            f"stopwaitsecs = {program.stop_seconds}",
            # Children die with a program that must be killed.
            "killasgroup = true",
            "autorestart = true\nstartsecs = 1\nstartretries = 10",
            "redirect_stderr = true",
            f"stdout_logfile = logs/{program.name}.log",
            "stdout_logfile_maxbytes = 5MB\nstdout_logfile_backups = 2",
        ]
        if program.user:
            sections.append(f"user = {program.user}")
        if program.folder:
            sections.append(f"directory = {quoted(program.folder)}")
    return "\n".join(sections) + "\n"
