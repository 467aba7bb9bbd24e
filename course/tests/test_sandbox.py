"""What a confined process tries reaches nobody, also when nothing has checked its code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import json, os, socket, signal, sys
from course.sandbox import confine


def attempt():
{attempt}

def work(pipe):
    try:
        answer = attempt()
    except BaseException as error:
        answer = type(error).__name__
    os.write(pipe, json.dumps(answer).encode())

outcome = confine(work, memory=1 << 30, seconds=2)
print(json.dumps([outcome.written.decode(), outcome.code, outcome.isolated]))
"""


def confined(attempt: str) -> tuple[object, int, bool]:
    """Run lines in a confined process; return what they return, its exit code, its isolation."""
    lines = "\n".join("    " + line for line in attempt.strip().splitlines())
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(attempt=lines)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
        timeout=60,
    )
    written, code, isolated = json.loads(done.stdout)
    return (json.loads(written) if written else None), code, isolated


@pytest.fixture(scope="module")
def isolated() -> None:
    """Skip where this kernel gives no namespaces: there the bounds are weaker, and say so."""
    if not confined("return 1")[2]:
        pytest.skip("this kernel has no user namespaces for this user")


def test_confined_process_returns_what_it_writes():
    assert confined("return 6 * 7")[:2] == (42, 0)


def test_confined_process_opens_nothing_and_starts_nothing(tmp_path: Path):
    target = tmp_path / "target"
    for attempt in (
        f"return open({str(target)!r}, 'w').name",
        "return socket.socket().fileno()",
        "return os.pipe()",
    ):
        assert confined(attempt)[0] == "OSError", attempt
    assert not target.exists()
    # The first fork of a fork bomb fails.
    assert confined("return [os.fork() for _ in range(3)]")[0] == "BlockingIOError"


@pytest.mark.long
def test_confined_process_that_does_not_end_is_ended():
    answer, code, _ = confined("while True: pass")
    assert answer is None
    assert code in (-signal.SIGKILL, -signal.SIGXCPU)


@pytest.mark.usefixtures("isolated")
def test_confined_process_signals_nobody(tmp_path: Path):
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as victim:
        attempts = (
            f"return os.kill({victim.pid}, 9)",
            f"return os.kill({os.getpid()}, 15)",
            "return os.kill(os.getppid(), 9) if os.getppid() > 1 else 'no parent'",
        )
        for attempt in attempts:
            assert confined(attempt)[0] in ("ProcessLookupError", "PermissionError", "no parent")
        confined("os.kill(-1, 9)")
        confined("os.killpg(0, 9)")
        assert victim.poll() is None
        victim.kill()


@pytest.mark.usefixtures("isolated")
def test_confined_process_changes_no_file(tmp_path: Path):
    tmp_path.chmod(0o777)
    kept = tmp_path / "kept"
    kept.write_text("as it was")
    kept.chmod(0o666)
    for attempt in (
        f"return os.unlink({str(kept)!r})",
        f"return os.rename({str(kept)!r}, {str(tmp_path / 'other')!r})",
        f"return os.truncate({str(kept)!r}, 0)",
        f"return os.mkdir({str(tmp_path / 'new')!r})",
        f"return os.chmod({str(kept)!r}, 0)",
    ):
        assert confined(attempt)[0] in ("OSError", "PermissionError"), attempt
    assert kept.read_text() == "as it was"
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


@pytest.mark.usefixtures("isolated")
def test_confined_process_cannot_make_its_files_writable_again():
    remount = """
import ctypes
libc = ctypes.CDLL(None)
return libc.mount(b"none", b"/", None, ctypes.c_ulong(0x1000 | 32), None)
"""
    assert confined("import ctypes\n" + remount)[0] == -1
    assert confined("return os.setuid(0)")[0] in ("PermissionError", "OSError")


def test_process_that_is_killed_takes_its_confined_child_along(tmp_path: Path):
    program = PROGRAM.format(attempt="    while True: pass").replace("seconds=2", "seconds=60")
    mark = f"confined-{time.monotonic_ns()}"
    process = subprocess.Popen([sys.executable, "-c", program, mark], cwd=ROOT)
    wait_for(lambda: len(running(mark)) > 1)
    process.kill()
    process.wait()
    wait_for(lambda: not running(mark))


def running(mark: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def wait_for(condition: object, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.05)
