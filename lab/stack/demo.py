"""`make demo`: start the whole shop with one command and watch it until Ctrl-C."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from typing import Any

import psutil
from django.conf import settings
from django.core.management import call_command
from django.db import Error, connection
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from development import StackError, leftovers
from development.embedded import EmbeddedServers, ServerUrls
from development.folder import alone, make_folder, provider_announced
from development.ports import asked_or_free
from development.signals import shielded
from development.supervisor import ProcessState, Supervisor
from lab import environment
from lab.demo.data import LOGINS, RENEWAL, fill_catalogue
from lab.stack import entry
from lab.stack.proxies import breakable, libfaketime
from lab.stack.stack import ALL, TARGET, Stack
from loadtest.checker.report.headline import wrapped
from loadtest.fault_needs import CLOCK, DATABASE_PROXY, FAILPOINTS, REDIS_PROXY

LOCK = "demo.lock"
WATCH_SECONDS = 0.5
FIRST_PROOF = "first-proof.json"
"""In the demo's folder: the result of the first proof."""


class Demo:
    """The steps of the demo.

    Args:
        console: shows each of them while it runs.
        breakable: speak to the servers through proxies, and give the web processes a clock of
            their own, for the faults that need them.
    """

    def __init__(self, console: Console, *, breakable: bool = False) -> None:
        self.console, self.breakable = console, breakable
        self.folder = make_folder(environment.data_folder() / "demo")
        self.servers: EmbeddedServers | None = entry.used.embedded
        self.stack: Stack | None = None

    def run(self, proof: Sequence[str], *, prove_again: bool) -> None:
        """Start everything, prove it once, and watch it until a signal ends the demo.

        Args:
            proof: arguments of the first proof; empty: no proof.
            prove_again: even if an earlier start with this data has proved it.

        Raises:
            StackError: a process does not start, or another demo uses this data folder.
        """
        with self._only_one(), ExitStack() as between, ExitStack() as cleanup:
            cleanup.callback(self._stop)
            self._prepare()
            stack = self._start_processes(between)
            self._fill(stack)
            passed = self._passed_proof()
            if proof and (prove_again or not passed):
                self._prove(proof)
            elif passed:
                self._recall(passed)
            # Watch before announcing that the shop is open, so that no death goes unnoticed.
            watches = [Watch(stack.supervisor)]
            if self.servers is not None:
                watches.append(Watch(self.servers.supervisor))
            self._show(stack)
            self._watch(watches)

    # --- steps --------------------------------------------------------------------------------

    def _prepare(self) -> None:
        if self.servers is not None:
            self._done("PostgreSQL and Valkey are running")
        with self._step("Cleaning up after earlier runs", "Cleaned up after earlier runs"):
            leftovers.stop(self.folder)
            leftovers.clear_abandoned()
        with self._step("Migrating the database", "The database is migrated"):
            call_command("migrate", verbosity=0, interactive=False)

    def _start_processes(self, between: ExitStack) -> Stack:
        # So that faults can kill or pause a web process at a chosen line.
        needs = {FAILPOINTS}
        if self.breakable and self.servers is not None:
            needs |= {REDIS_PROXY, DATABASE_PROXY, *([CLOCK] if libfaketime() else [])}
        urls, parts = breakable(self.folder, ServerUrls.of_environment(), needs, between)
        port, locust_port = asked_or_free("SHOP_PORT"), asked_or_free("LOCUST_PORT")
        self.stack = stack = Stack(
            self.folder, urls, port=port, locust_port=locust_port, parts=parts
        )
        with self._step("Starting the shop, Celery and Locust", "The shop, Celery and Locust run"):
            stack.start(*ALL)
            # Locust's page and the room read here which servers they may break: this demo's only.
            (self.folder / TARGET).unlink(missing_ok=True)
            if self.servers is not None:
                stack.target(self.servers).write(self.folder / TARGET)
            between.enter_context(provider_announced(stack.psp_url))
        return stack

    def _fill(self, stack: Stack) -> None:
        """Create the catalogue. Some of its orders are paid, so the payment provider must run."""
        settings.PSP_URL = stack.psp_url
        with self._step("Filling the catalogue", "The catalogue is filled"), pool_closed():
            call_command("seed", verbosity=0)

    def _prove(self, arguments: Sequence[str]) -> None:
        self.console.print("\n[bold]A first proof[/]: " + escape(" ".join(arguments)))
        assert self.stack is not None
        command = [sys.executable, str(environment.PROJECT / "manage.py"), "prove", *arguments]
        command += ["--json", str(self.folder / FIRST_PROOF)]
        variables = {**os.environ, "SHOP_URL": self.stack.url, "SHOP_DEMO": "1"}
        variables["PSP_URL"] = self.stack.psp_url
        with subprocess.Popen(command, env=variables) as process:
            try:
                code = process.wait()
            except BaseException:
                # Ctrl-C reaches the process directly; SIGTERM and SIGHUP are passed on. Then it
                # gets time to stop its own processes.
                process.terminate()
                with shielded(), suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=30)
                process.kill()
                raise
        if code:
            self.console.print(f"[bold red]The first proof did not pass (exit code {code}).[/]")

    def _passed_proof(self) -> dict[str, Any] | None:
        """Return the result of the last proof at a start, if it passed."""
        try:
            result: dict[str, Any] = json.loads((self.folder / FIRST_PROOF).read_text())
        except (FileNotFoundError, ValueError):  # no proof yet, or an interrupted one
            return None
        return result if result["verdict"] == "pass" and "headline" in result else None

    def _recall(self, result: dict[str, Any]) -> None:
        made = datetime.fromtimestamp((self.folder / FIRST_PROOF).stat().st_mtime).astimezone()
        self._done(f"The first proof, of {made:%Y-%m-%d %H:%M}:")
        for line in wrapped(result["headline"], self.console.width - 2):
            self.console.print(Text(f"  {line}", style="bold green"))
        repeat = Text(f"  Repeat: {result['repeat']}", style="dim")
        self.console.print(repeat, soft_wrap=True)

    def _show(self, stack: Stack) -> None:
        rows = [
            ("Stage", f"{stack.url}/stage/"),
            ("Shop", stack.url),
            ("Locust", stack.locust_url),
            ("Payment provider", stack.psp_url),
            *((f"Sign in as {who.role}", f"{who.username} / {who.password}") for who in LOGINS),
        ]
        if self.servers is not None:
            rows.append(("SQL", f"{sys.executable} manage.py dbshell"))
        rows.append(("Logs", str(stack.supervisor.logs)))
        self.console.print(Text("\nThe shop is open", style="bold green"))
        for what, where in rows:
            # Each on one line, however long it is, so that it can be copied.
            line = Text.assemble((f"  {what:<20}", "dim"), where)
            self.console.print(line, soft_wrap=True)
        self.console.print("Ctrl-C stops everything; the data is kept (`make reset` deletes it).")

    def _watch(self, watches: Sequence[Watch]) -> None:
        renewed = time.monotonic()
        while True:
            if time.monotonic() - renewed > RENEWAL:
                renewed = time.monotonic()
                # The database may be away; a minute later it may be back.
                with suppress(Error), pool_closed():
                    fill_catalogue()
            for watch in watches:
                for change in watch.changes():
                    line = Text.assemble((time.strftime("%T "), "dim"), change)
                    self.console.print(line, soft_wrap=True)
            time.sleep(WATCH_SECONDS)

    def _stop(self) -> None:
        with shielded():
            self._say_last("\nStopping …")
            if self.stack is not None:
                self.stack.stop()
            if self.servers is not None:
                self.servers.detach()
            self._say_last("Everything is stopped.")

    def _say_last(self, text: str) -> None:
        # The terminal or the pipe may be gone, and rich then ends the process. Stopping must
        # continue.
        with suppress(OSError, SystemExit):
            self.console.print(text)

    # --- helpers ------------------------------------------------------------------------------

    @contextmanager
    def _only_one(self) -> Iterator[None]:
        with alone(self.folder / LOCK) as only:
            if not only:
                raise StackError(
                    f"A demo is already running with the data in {environment.data_folder()}. "
                    "Stop it, or give this one its own folder: SHOP_DATA=/some/folder."
                )
            yield

    @contextmanager
    def _step(self, doing: str, done: str) -> Iterator[None]:
        start = time.monotonic()
        with self.console.status(f"{doing} …"):
            yield
        self._done(f"{done} [dim]({time.monotonic() - start:.1f} s)[/]")

    def _done(self, text: str) -> None:
        self.console.print(f"[green]✓[/] {text}")


@contextmanager
def pool_closed() -> Iterator[None]:
    """Close the pool afterwards, whose threads would log every outage to this terminal."""
    try:
        yield
    finally:
        connection.close()
        connection.close_pool()  # type: ignore[attr-defined]  # PostgreSQL's backend has it


# The children of these processes are workers, which live until they are killed. PostgreSQL's
# children are connections, which come and go.
WITH_WORKERS = {"psp", "web", "celery"}


class Watch:
    """Compares a supervisor's processes with the previous poll.

    A process that died and restarted has a new pid, so no death is missed in between.
    """

    def __init__(self, supervisor: Supervisor) -> None:
        self.supervisor = supervisor
        self._states = {state.name: state for state in supervisor.states()}
        self._workers = {name: living_workers(state) for name, state in self._states.items()}

    def changes(self) -> Iterator[Text]:
        """Yield a line for each process that has died or started since the previous call.

        Raises:
            StackError: supervisord does not answer.
        """
        for now in self.supervisor.states():
            before, self._states[now.name] = self._states[now.name], now
            workers_before, self._workers[now.name] = self._workers[now.name], living_workers(now)
            if before.pid and before.pid != now.pid:
                yield self._died(f"{now.name} (pid {before.pid})", now.name)
            elif dead := workers_before - self._workers[now.name]:
                pids = ", ".join(map(str, sorted(dead)))
                yield self._died(f"{now.name}: worker {pids}", now.name)
            if now.state == "RUNNING" and (before.state, before.pid) != (now.state, now.pid):
                yield Text(f"{now.name} is running again (pid {now.pid})", "green")
            if now.state == "FATAL" and before.state != "FATAL":
                log = self.supervisor.log_tail(now.name)
                lines = [f"{now.name} no longer starts:", *log.splitlines()]
                yield Text("\n    ".join(lines), "red")

    def _died(self, who: str, name: str) -> Text:
        return Text(f"{who} died; its log: {self.supervisor.log_file(name)}", "red")


def living_workers(state: ProcessState) -> set[int]:
    """Return the pids of a process's workers, without those that have ended."""
    if state.name not in WITH_WORKERS or not state.pid:
        return set()
    try:
        children = psutil.Process(state.pid).children()
    except psutil.NoSuchProcess:
        return set()
    alive = set()
    for child in children:
        with suppress(psutil.NoSuchProcess):  # it has ended meanwhile; its siblings have not
            if child.status() != psutil.STATUS_ZOMBIE:
                alive.add(child.pid)
    return alive
