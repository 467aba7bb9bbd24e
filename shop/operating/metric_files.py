"""The metrics of all processes, in a shared folder, in the files of `prometheus_client`'s
multiprocess mode.

Containers on one machine share the folder (docker-compose.yml mounts a volume). Its files can be
read while Redis, the database and the processes themselves are away.

The library's own values of this mode raise an error from the line that counts if their file cannot
be opened, and end the process (SIGBUS) if the disk is full when a part of their file is first used.
No purchase may fail for that, or pay for it. So a process counts in memory, and a thread of its own
writes to the files what has changed, a few times per second. Their space is taken from the disk
before they are used, and they are written anew when they were deleted or could not be written.

A process is alive while it touches its files. When it ends, its counters stay, so that Prometheus
reads what it has counted last; one that is killed takes a moment's counts with it.
"""

from __future__ import annotations

import atexit
import os
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prometheus_client import Metric, multiprocess, values
from prometheus_client.mmap_dict import MmapedDict, mmap_key

from shop import environment

EVERY = 0.25
"""Seconds between two times that a process writes, which is its sign of life. A sale may be over in
two seconds: with fewer, its curves would be one or two points."""

ALIVE = 5.0
"""Seconds since its last sign of life after which a process counts as gone."""

FORGOTTEN = 24 * 3600.0
"""Seconds since its last sign of life after which a process's files are deleted."""

SIZE = 1 << 16
"""Bytes of a new file; it is doubled when it is full."""


class _File(MmapedDict):
    """A file of values that has its space on the disk before it is mapped.

    Raises:
        OSError: it cannot be made, or there is no space.
    """

    def __init__(self, path: Path) -> None:
        # Renamed when it is whole: a reader takes any file `*.db`.
        new = path.with_suffix(".new")
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            _take_space(file, SIZE)
        finally:
            os.close(file)
        new.replace(path)
        super().__init__(str(path))  # type: ignore[no-untyped-call]

    def _init_value(self, key: str) -> None:
        if self._used + len(key.encode()) + 32 > self._capacity:
            # The library's file is open for appending; it would make a hole.
            _take_space(self._f.fileno(), self._capacity)
        super()._init_value(key)  # type: ignore[no-untyped-call]


def _take_space(file: int, size: int) -> None:
    while size:
        size -= os.write(file, bytes(size))


class Value(values.MutexValue):
    """A number of a metric, which counts in memory, with its place in a file of the process.

    What `prometheus_client` calls a value class: it makes a value for each series.
    """

    def __init__(
        self,
        typ: str,
        metric_name: str,
        name: str,
        labelnames: Iterable[str],
        labelvalues: Iterable[str],
        help_text: str,
        multiprocess_mode: str = "",
        **_: Any,
    ) -> None:
        super().__init__(  # type: ignore[no-untyped-call]
            typ, metric_name, name, labelnames, labelvalues, help_text
        )
        self.file_prefix = f"{typ}_{multiprocess_mode}" if typ == "gauge" else typ
        self.key = mmap_key(metric_name, name, list(labelnames), list(labelvalues), help_text)
        self.written: float | None = None
        process.add(self)

    def write_to(self, file: _File) -> None:
        """Write the number, if it is not what was written last.

        Raises:
            OSError: there is no space for it.
        """
        number: float = self.get()  # type: ignore[no-untyped-call]
        if number == self.written:
            return
        file.write_value(self.key, number, 0.0)  # type: ignore[no-untyped-call]
        self.written = number


class ProcessFiles:
    """The values of this process, and their files once it has begun to write."""

    def __init__(self) -> None:
        self._values: list[Value] = []
        self._files: dict[str, _File] = {}
        self._folder: Path | None = None
        self._name = ""
        self._lock = threading.RLock()

    def add(self, value: Value) -> None:
        """Take a new value."""
        with self._lock:
            self._values.append(value)

    def begin(self, shared: Path, name: str) -> None:
        """Write all values from now on, to files of this name."""
        with self._lock:
            self._folder, self._name = shared, name
            self._begin_anew()
        self.keep()

    def end(self) -> None:
        """Write nothing any more; the files stay as they are."""
        with self._lock:
            self._folder = None
            self._begin_anew()

    def keep(self) -> None:
        """Give a sign of life, and write what has changed, or all if a file is gone."""
        with self._lock:
            if self._folder is None:
                return
            try:
                for prefix in self._files:
                    os.utime(self._path(prefix))
            except OSError:
                self._begin_anew()
            for prefix in {value.file_prefix for value in self._values} - self._files.keys():
                with suppress(OSError):  # the folder is full, gone or not ours; perhaps next time
                    self._folder.mkdir(mode=0o755, parents=True, exist_ok=True)
                    self._files[prefix] = _File(self._path(prefix))
            for value in self._values:
                if file := self._files.get(value.file_prefix):
                    with suppress(OSError):  # no space for this one
                        value.write_to(file)

    def _path(self, prefix: str) -> Path:
        assert self._folder is not None
        return self._folder / f"{prefix}_{self._name}.db"

    def _begin_anew(self) -> None:
        for value in self._values:
            value.written = None
        for file in self._files.values():
            file.close()  # type: ignore[no-untyped-call]
        self._files = {}


process = ProcessFiles()
"""This process's."""


def install() -> None:
    """Let all metrics that are made from now on have values that can be written to files."""
    values.ValueClass = Value


def folder() -> Path | None:
    """Return the folder that the processes write to; None if they write nothing."""
    path = environment.text("METRICS_FOLDER")
    return Path(path) if path else None


def name_of(pid: int, kind: str) -> str:
    """Return the name of a process of this host, the label `process` of its series."""
    # Process numbers repeat from container to container; a container's host name does not.
    return f"{socket.gethostname()}.{pid}.{kind}"


def begin(kind: str) -> None:
    """Keep this process's metrics in the folder from now on, if there is one.

    Args:
        kind: `web` or `celery`.
    """
    shared = folder()
    if shared is None:
        return
    # Not above: gunicorn's settings import this module, before gevent has patched the library.
    from shop.operating.metrics import PROCESS_STARTED

    forget(FORGOTTEN)
    PROCESS_STARTED.set(time.time())
    process.begin(shared, name_of(os.getpid(), kind))
    atexit.register(process.keep)
    threading.Thread(target=_keep_forever, name="metrics", daemon=True).start()


def _keep_forever() -> None:
    from inventory.metrics import take_samples

    while True:
        take_samples()
        process.keep()
        time.sleep(EVERY)


def end(pid: int, kind: str) -> None:
    """Remove the gauges of a process of this host that has ended."""
    shared = folder()
    if shared is not None:
        with suppress(OSError):
            multiprocess.mark_process_dead(  # type: ignore[no-untyped-call]
                name_of(pid, kind), str(shared)
            )


def forget(after: float = ALIVE) -> None:
    """Remove the files of processes that are gone.

    Args:
        after: seconds of silence of this host's processes: few for a command that starts all of
            them, because nobody reads what the ones before have counted. For other hosts', a day.
    """
    own, now = f"{socket.gethostname()}.", time.time()
    for written in processes():
        silent = now - written.seen
        if silent > (after if written.name.startswith(own) else FORGOTTEN):
            for path in written.paths:
                path.unlink(missing_ok=True)


@dataclass(slots=True)
class Process:
    """A process and its files.

    Attributes:
        name: its host's name, process id and kind, with dots between them.
        paths: its files.
        seen: its last sign of life, in seconds since the epoch by this machine's clock.
    """

    name: str
    paths: list[Path] = field(default_factory=list)
    seen: float = 0.0

    @property
    def alive(self) -> bool:
        """Whether it has given a sign of life within the last seconds, and was not seen to end."""
        return bool(self._gauges()) and time.time() - self.seen < ALIVE

    def metrics(self, *, accumulate: bool = True) -> Iterable[Metric]:
        """Read its metrics; gauges only while it is alive.

        Args:
            accumulate: whether a histogram's bucket includes the smaller ones, as in Prometheus.
        """
        paths = self.paths if self.alive else [path for path in self.paths if not _is_gauge(path)]
        try:
            return _merge(paths, accumulate=accumulate)
        except FileNotFoundError:  # deleted since the folder was read
            return ()

    def gauges(self) -> dict[str, float]:
        """Read its gauges by name."""
        found = _merge(self._gauges())
        return {sample.name: sample.value for metric in found for sample in metric.samples}

    def _gauges(self) -> list[Path]:
        return [path for path in self.paths if _is_gauge(path)]


def _merge(paths: Iterable[Path], *, accumulate: bool = True) -> Iterable[Metric]:
    found: Iterable[Metric] = multiprocess.MultiProcessCollector.merge(  # type: ignore[no-untyped-call]
        map(str, paths), accumulate
    )
    return found


def _is_gauge(path: Path) -> bool:
    return path.name.startswith("gauge_")


def processes() -> Iterator[Process]:
    """Return the processes that have files, by name."""
    shared = folder()
    found: defaultdict[str, Process] = defaultdict(lambda: Process(""))
    for path in sorted(shared.glob("*.db")) if shared else ():
        # gauge_livesum_HOST.PID.KIND.db, counter_HOST.PID.KIND.db
        name = path.stem.split("_", 2 if _is_gauge(path) else 1)[-1]
        one = found[name]
        with suppress(FileNotFoundError):
            one.seen = max(one.seen, path.stat().st_mtime)
            one.name = name
            one.paths.append(path)
    yield from (found[name] for name in sorted(found) if found[name].paths)
