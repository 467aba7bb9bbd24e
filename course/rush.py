"""A rush on a real PostgreSQL, for a learner's file about a stock.

The simulator tries the orders of a few requests; here hundreds meet, on a real database. `hold`
starts `python -m course.rush`, and this process:

- makes a schema with the tables of the lesson, and deletes it at the end;
- starts the "web servers": processes that run the learner's file (`course/rush_server.py`), each in
  the sandbox, where it reaches nobody;
- gives them the buyers' requests, and runs for them what the file lets its connection execute. It
  runs only what the simulated database knows too (`course/simulator/sql.py`), on the tables of the
  lesson, so the file reaches nothing else in the database;
- loses some connections at COMMIT, if the lesson says so;
- compares at the end the answers that the buyers got with what the tables have.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from random import Random
from tempfile import TemporaryDirectory
from typing import IO, Any
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from course.judge import OWN_FAILURE, PATHS, READY, says
from course.lesson import Lesson, find
from course.plan import ERROR_PAGE, SOLD, SOLD_OUT, STOCK_TABLES, UNKNOWN, Rush
from course.simulator.history import Say, _
from course.simulator.sql import Unknown, parse

ENVIRONMENT = {"PYTHONPATH": os.pathsep.join(PATHS), "PYTHONUTF8": "1"}
"""Of the process, and of its web servers."""

SERVERS = 4
BUYERS, STOCK = 300, 100

SECONDS = 60
"""That a rush may take; it takes a tenth of that on two cores."""

LOST = 5
"""Of so many commits of a web server, the first is lost, where a lesson loses some: alternately
after and before the database has executed it."""

ASKS = 5
"""How often a buyer who hears "unknown" asks again, with the same key."""

STATEMENT_MS = 10_000
"""Milliseconds that a statement may take or wait."""

MOST_CONNECTIONS = 8
"""That one request may open."""

MAX_LINE = 1 << 20
"""Bytes of what a web server writes at once."""

SCHEMA = "course_rush"
LOCK = 0x7275736800
"""The database's advisory lock that the holder of a rush has: there is one schema."""

TABLES = """
    CREATE TABLE item (id integer PRIMARY KEY, available integer NOT NULL);
    CREATE TABLE orders (number text PRIMARY KEY, buyer text NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class RushResult:
    """What became of a rush.

    Attributes:
        unheld: why there was none, in one line; the file has no part in that.
        error: how the file failed, in one line.
        output: where in the file.
        problems: what was wrong in the end, a line each.
        counts: buyers, requests, units, and what became of them.
        isolated: whether the file ran in namespaces of its own.
    """

    unheld: str = ""
    error: str = ""
    output: str = ""
    problems: tuple[str, ...] = ()
    counts: Mapping[str, float] = field(default_factory=dict)
    isolated: bool = True

    @property
    def passed(self) -> bool:
        """Whether buyers came, and all was right."""
        return not (self.unheld or self.error or self.problems)


def hold(
    lesson: Lesson, source: str, filename: str, database: str, language: str = "en"
) -> RushResult:
    """Hold a rush in a process of its own.

    Args:
        database: libpq's connection string of a database in which a schema can be made.
        language: of the result, "en" or "zh".
    """
    say = says(language)
    job = {"lesson": lesson.slug, "source": source, "filename": filename}
    job |= {"database": database, "language": language}
    try:
        done = subprocess.run(
            [sys.executable, "-B", "-m", "course.rush"],
            input=json.dumps(job),
            capture_output=True,
            env=ENVIRONMENT,
            encoding="utf-8",
            timeout=2 * SECONDS,
            check=False,
        )
        values = json.loads(done.stdout)
        return RushResult(**values | {"problems": tuple(values["problems"])})
    except subprocess.TimeoutExpired as problem:
        return RushResult(unheld=say(OWN_FAILURE) % problem)
    except (OSError, ValueError):
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        return RushResult(unheld=say(OWN_FAILURE) % last[0])


def database() -> str:
    """Return the address of Django's database, for `hold`."""
    from django.db import connection  # not in the process of the rush, which has no settings

    chosen = connection.settings_dict
    return make_conninfo(
        host=chosen["HOST"],
        port=chosen["PORT"] or None,
        user=chosen["USER"],
        password=chosen["PASSWORD"] or None,
        dbname=chosen["NAME"],
    )


def summary(result: RushResult, say: Say) -> str:
    """Return the figures of a rush in a sentence or two."""
    text = say(
        _(
            "A rush on PostgreSQL: %(buyers)s buyers, %(requests)s requests, %(servers)s web "
            "servers, %(stock)s units. Sold: %(sold)s; told “sold out”: %(sold_out)s; connections "
            "lost: %(lost)s. Sold too many: %(oversold)s; bought twice: %(doubled)s; told what is "
            "not so: %(false)s. It took %(seconds)s s."
        )
    )
    return text % result.counts


# -- in the process


@dataclass(slots=True)
class Collected:
    """The answers that the buyers got, by key, and how the file failed; shared by threads."""

    answers: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    error: str = ""
    output: str = ""


class WebServer(threading.Thread):
    """One of the web servers: gives its process requests, and runs their statements."""

    def __init__(
        self, process: subprocess.Popen[bytes], requests: Requests, collected: Collected, job: Job
    ) -> None:
        super().__init__(daemon=True)
        self.process, self.requests, self.collected, self.job = process, requests, collected, job
        self.commits = self.lost = 0
        """How often the file has committed, and how many of these connections were lost."""
        self.idle: list[psycopg.Connection[Any]] = []
        self.open: dict[int, psycopg.Connection[Any] | None] = {}

    def run(self) -> None:
        """Serve until no request is left, or the file has failed."""
        try:
            for buyer, key in self.requests:
                if self.collected.error:
                    break
                self._serve(buyer, key)
        finally:
            for connection in self.idle:
                connection.close()

    def _serve(self, buyer: str, key: str) -> None:
        for _ask in range(ASKS):
            answer = self._ask(buyer, key)
            if answer is None:
                return
            self.collected.answers[key].append(answer)
            if answer != UNKNOWN:
                return

    def _ask(self, buyer: str, key: str) -> str | None:
        """Return the file's answer to a request; None if it has failed."""
        self._tell({"buyer": buyer, "key": key})
        try:
            while (line := self._heard()) is not None:
                if "answer" in line:
                    return str(line["answer"])
                if "error" in line:
                    self.collected.error, self.collected.output = (
                        str(line["error"]),
                        str(line["output"]),
                    )
                    return None
                self._tell(self._done(line))
        finally:
            self._put_back()
        if not self.collected.error:
            why = self.job.say(_("a web server ended; is there a loop that never ends?"))
            self.collected.error = f"{self.job.filename}: {why}"
        return None

    # -- what the file's connections ask for

    def _done(self, line: Mapping[str, Any]) -> dict[str, Any]:
        """Do what a connection was asked to do; return its answer or error."""
        try:
            return self._do(str(line["do"]), line)
        except Unknown as problem:
            return {"raise": "Unknown", "text": str(problem)}
        except psycopg.Error as problem:
            return {"raise": type(problem).__name__, "text": str(problem)}

    def _do(self, what: str, line: Mapping[str, Any]) -> dict[str, Any]:
        if what == "connect":
            if len(self.open) >= MOST_CONNECTIONS:
                raise psycopg.OperationalError("too many connections")
            number = len(self.open)
            self.open[number] = self.idle.pop() if self.idle else self.job.connect()
            return {"number": number}
        connection = self.open.get(line["number"])
        if connection is None:
            raise psycopg.OperationalError("the connection is closed")
        if what == "execute":
            return self._execute(connection, str(line["statement"]), line["values"])
        if what == "commit":
            self._commit(line["number"], connection)
        elif what == "rollback":
            connection.rollback()
        else:
            self.open[line["number"]] = None
            connection.rollback()
            self.idle.append(connection)
        return {}

    def _execute(
        self, connection: psycopg.Connection[Any], statement: str, values: Sequence[Any]
    ) -> dict[str, Any]:
        table = parse(statement).table
        if table not in STOCK_TABLES:
            raise psycopg.errors.UndefinedTable(f"there is no table {table}")
        cursor = connection.execute(statement.encode(), values)
        rows = cursor.fetchall() if cursor.description else []
        return {"rowcount": cursor.rowcount, "rows": rows}

    def _commit(self, number: int, connection: psycopg.Connection[Any]) -> None:
        """Commit, or lose the connection before or after it."""
        turn, place = divmod(self.commits, LOST)
        self.commits += 1
        if place or not self.job.rush.loses:
            connection.commit()
            return
        if turn % 2 == 0:
            connection.commit()
        connection.close()
        self.open[number] = None
        self.lost += 1
        raise psycopg.OperationalError("the connection was lost")

    def _put_back(self) -> None:
        """Roll back what the request has not committed, and keep its connections for the next."""
        for connection in self.open.values():
            if connection is None:
                continue
            with suppress(psycopg.Error):
                connection.rollback()
                self.idle.append(connection)
        self.open.clear()

    # -- the pipes

    def _tell(self, line: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        with suppress(OSError):  # it has ended, which is seen when it is read from
            self.process.stdin.write(json.dumps(line, default=str).encode() + b"\n")
            self.process.stdin.flush()

    def _heard(self) -> dict[str, Any] | None:
        """Return the next line; None if the process has ended or writes nonsense."""
        assert self.process.stdout is not None
        return read_line(self.process.stdout)


def read_line(pipe: IO[bytes]) -> dict[str, Any] | None:
    """Return the next line's values; None at the end, or if it is none of ours."""
    line = pipe.readline(MAX_LINE)
    with suppress(ValueError):
        values = json.loads(line)
        if isinstance(values, dict) and "ended" not in values:
            return values
    return None


class Requests:
    """The requests that are left; threads take them in turn."""

    def __init__(self, requests: Sequence[tuple[str, str]]) -> None:
        self._left: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
        for request in requests:
            self._left.put(request)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        while True:
            try:
                yield self._left.get_nowait()
            except queue.Empty:
                return


@dataclass(frozen=True, slots=True)
class Job:
    """What to rush, and where."""

    lesson: Lesson
    rush: Rush
    source: str
    filename: str
    database: str
    language: str

    @property
    def say(self) -> Say:
        """What translates."""
        return says(self.language)

    def connect(self) -> psycopg.Connection[Any]:
        """Return a new connection to the tables of the rush."""
        connection = psycopg.connect(self.database, autocommit=True)
        connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(SCHEMA)))
        connection.execute(sql.SQL("SET statement_timeout = {}").format(STATEMENT_MS))
        connection.autocommit = False
        return connection

    def requests(self) -> list[tuple[str, str]]:
        """Return buyers with the keys of their requests, in the order in which they are sent.

        Of two buyers, the first sends a request once: where an answer is lost, nothing else tells
        that buyer what became of it.
        """
        dice = Random(7)
        found = []
        for number in range(BUYERS):
            key = str(UUID(int=dice.getrandbits(128), version=4))
            found += [(f"buyer-{number}", key)] * (1 + (self.rush.twice and number % 2))
        return found


@contextmanager
def schema(job: Job) -> Iterator[psycopg.Connection[Any]]:
    """Make the tables, and delete them at the end.

    Raises:
        Taken: another rush is held on this database.
        psycopg.Error: they cannot be made.
    """
    name = sql.Identifier(SCHEMA)
    with psycopg.connect(job.database, autocommit=True) as connection:
        taken = connection.execute("SELECT pg_try_advisory_lock(%s)", (LOCK,)).fetchone()
        if taken != (True,):
            raise Taken
        connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(name))
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(name))
        try:
            connection.execute(sql.SQL("SET search_path = {}").format(name))
            connection.execute(TABLES)
            connection.execute("INSERT INTO item (id, available) VALUES (1, %s)", (STOCK,))
            yield connection
        finally:
            connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(name))


class Taken(Exception):
    """Another rush is held."""


@contextmanager
def processes(job: Job) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Start the web servers, and end them."""
    words = [sys.executable, "-B", "-m", "course.rush_server"]
    started: list[subprocess.Popen[bytes]] = []
    with TemporaryDirectory() as folder:
        try:
            for _number in range(SERVERS):
                process = subprocess.Popen(
                    [*words, job.lesson.slug, job.filename, job.language],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    cwd=folder,
                    env=ENVIRONMENT,
                    start_new_session=True,
                )
                started.append(process)
                assert process.stdin is not None
                process.stdin.write(json.dumps({"source": job.source}).encode() + b"\n")
                process.stdin.flush()
            yield started
        finally:
            for process in started:
                process.kill()
                process.wait()
                for pipe in (process.stdin, process.stdout):
                    with suppress(OSError):  # what was not read any more
                        pipe.close() if pipe else None


def rush(job: Job) -> RushResult:
    """Hold the rush; see the module's text for its steps."""
    collected, began = Collected(), time.monotonic()
    with schema(job) as connection, processes(job) as started:
        for process in started:
            assert process.stdout is not None
            if process.stdout.readline().strip() != READY.encode():
                return RushResult(unheld=job.say(OWN_FAILURE) % "a web server did not start")
        requests = Requests(job.requests())
        servers = [WebServer(process, requests, collected, job) for process in started]
        for server in servers:
            server.start()
        for server in servers:
            server.join(max(0.0, began + SECONDS - time.monotonic()))
        if any(server.is_alive() for server in servers):
            why = job.say(_("it took too long; is there a loop that never ends?"))
            return RushResult(error=f"{job.filename}: {why}")
        isolated = [_ended(process) for process in started]
        if collected.error:
            return RushResult(
                error=collected.error, output=collected.output, isolated=all(isolated)
            )
        counts = _compare(job, connection, collected)
        counts |= {"lost": sum(server.lost for server in servers)}
        counts |= {"seconds": round(time.monotonic() - began, 1)}
        return RushResult(
            problems=tuple(_problems(counts, job.say)), counts=counts, isolated=all(isolated)
        )


def _ended(process: subprocess.Popen[bytes]) -> bool:
    """Let a web server end; return whether it was isolated."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(OSError):  # it has ended already
        process.stdin.close()
    with suppress(OSError, ValueError, subprocess.TimeoutExpired):
        process.wait(timeout=10)
        # By the pipe's own buffer, which may have read this line with the one before.
        lines = process.stdout.read().splitlines()
        return bool(lines) and bool(json.loads(lines[-1]).get("isolated"))
    return False


def _compare(
    job: Job, connection: psycopg.Connection[Any], collected: Collected
) -> dict[str, float]:
    """Compare the answers that the buyers got with what the tables have; return the figures."""
    found = connection.execute("SELECT available FROM item WHERE id = 1").fetchone()
    orders = Counter(dict(connection.execute("SELECT buyer, count(*) FROM orders GROUP BY buyer")))
    buyers = dict(job.requests())
    answers = Counter(answer for key in buyers.values() for answer in collected.answers[key])
    return {
        "buyers": BUYERS,
        "requests": answers.total(),
        "servers": SERVERS,
        "stock": STOCK,
        "sold": orders.total(),
        "left": found[0] if found else 0,
        "sold_out": answers[SOLD_OUT],
        "unknown": answers[UNKNOWN],
        "error_pages": answers[ERROR_PAGE],
        "oversold": max(0, orders.total() - STOCK),
        "doubled": sum(count > 1 for count in orders.values()),
        "false": sum(
            _is_untrue(set(collected.answers[key]), is_sold=orders[buyer] > 0, loses=job.rush.loses)
            for buyer, key in buyers.items()
        ),
    }


def _is_untrue(answers: set[str], *, is_sold: bool, loses: bool) -> bool:
    """Return whether a buyer was told what is not so.

    "unknown" is true of whatever there is; "failed" and an error page say that nothing was sold,
    and are never true where no connection was lost.
    """
    others = answers - {SOLD, SOLD_OUT, UNKNOWN}
    if not loses and answers - {SOLD, SOLD_OUT}:
        return True
    if not is_sold:
        return SOLD in answers
    return SOLD_OUT in answers or (bool(others) and SOLD not in answers)


def _problems(counts: Mapping[str, float], say: Say) -> Iterator[str]:
    """Yield what is wrong with the figures."""
    if counts["oversold"]:
        yield say(_("more orders than units"))
    if counts["doubled"]:
        yield say(_("buyers who have two orders for one request"))
    if counts["false"]:
        yield say(_("buyers who were told what is not so"))
    if counts["sold"] + counts["left"] != STOCK:
        yield say(_("the orders and what is left are not what there was"))
    elif counts["left"]:
        yield say(_("units are left, although buyers were turned away"))


def main() -> None:
    """Hold the rush that stdin describes, and print its result."""
    values = json.loads(sys.stdin.read())
    lesson = find(values.pop("lesson"))
    assert lesson.plan.rush is not None
    job = Job(lesson=lesson, rush=lesson.plan.rush, **values)
    try:
        result = rush(job)
    except Taken:
        result = RushResult(unheld=job.say(_("another rush is being held; try again in a minute")))
    except psycopg.Error as problem:
        result = RushResult(unheld=job.say(OWN_FAILURE) % str(problem).splitlines()[0])
    sys.stdout.write(json.dumps(asdict(result)))


if __name__ == "__main__":
    main()
