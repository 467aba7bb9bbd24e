"""Run the README's two commands as on a bare machine: `python3 .ci/bare.py [PASSED]`.

On a clean clone, with an empty home and a PATH of Python, make, git, sh and coreutils, whatever
else this machine has: `make demo` until it says PROVED, then Ctrl-C, then the exercise of every
lock lesson, then `make test`. The exercises come before `make test` installs the developers'
packages, because a learner does not have these. The names of the tests that passed are written to
the file PASSED, so that a later run can leave them out.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).parent.parent
PROGRAMS = ("make", "git", "sh")
# Where the package index is and how to reach it, on a machine that has its own way.
INDEX = re.compile(r"PIP_\w+|SSL_CERT_FILE|REQUESTS_CA_BUNDLE")
PROVED_WITHIN = 900  # s, the installation of the packages included
STOPPED_WITHIN = 60  # s


def main(passed=None):
    """Run both commands; exit with the reason if one does not do what the README says."""
    # From a shell's background, this process would be deaf to Ctrl-C, and all it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="bare-") as name:
        folder = Path(name)
        clone = folder / "clone"
        subprocess.run(["git", "clone", "-q", PROJECT, clone], check=True)
        variables = bare_variables(folder)
        demo(clone, variables)
        exercises(clone, variables)
        if passed:
            variables["PYTEST_ADDOPTS"] = f"--passed-to={Path(passed).absolute()}"
        test(clone, variables)


def bare_variables(folder):
    """Make the folders of PATH and HOME; return all variables of the environment."""
    path, home = folder / "bin", folder / "home"
    path.mkdir()
    home.mkdir()
    (path / "python3").symlink_to(Path(sys.executable).resolve())
    listed = subprocess.run(["dpkg", "-L", "coreutils"], capture_output=True, text=True, check=True)
    coreutils = {Path(line).name for line in listed.stdout.split() if "bin/" in line}
    for program in (*PROGRAMS, *sorted(coreutils)):
        (path / program).symlink_to(shutil.which(program))
    index = {name: value for name, value in os.environ.items() if INDEX.fullmatch(name)}
    return {**index, "PATH": str(path), "HOME": str(home)}


def demo(clone, variables):
    """Run the demo until it has proved itself, end it as Ctrl-C does, and look for what it left."""
    say("make demo")
    log = clone.parent / "demo.log"
    # make is to end with the demo and its exit code, not by the signal. So it is deaf to it, as if
    # a shell had started it in the background.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with log.open("wb") as output:
        options = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT}
        process = subprocess.Popen(
            ["make", "demo"], cwd=clone, env=variables, start_new_session=True, **options
        )
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        end = time.monotonic() + PROVED_WITHIN
        while "PROVED" not in log.read_text():
            if process.poll() is not None or time.monotonic() > end:
                sys.exit(f"error: make demo did not prove anything; exit code {process.poll()}")
            time.sleep(0.5)
        os.killpg(process.pid, signal.SIGINT)
        if code := process.wait(STOPPED_WITHIN):
            sys.exit(f"error: make demo ended with {code} after Ctrl-C")
    finally:
        print(log.read_text(), flush=True)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(STOPPED_WITHIN)
    nothing_is_left(clone.parent, log.read_text())


def exercises(clone, variables):
    """Judge the lock that each lesson's exercise starts with, and its solution."""
    say("the lock lab's exercises")
    for lesson in json.loads(judged(clone, variables, "--json").stdout):
        slug, start, solution = lesson["slug"], clone / "start.py", clone / "solution.py"
        start.unlink(missing_ok=True)
        expect(judged(clone, variables, slug, "--start", start.name), 0)
        expect(judged(clone, variables, slug, "--mine", start.name), 1)
        shown = expect(judged(clone, variables, slug, "--solution"), 0)
        solution.write_text(shown.stdout)
        print(expect(judged(clone, variables, slug, "--mine", solution.name), 0).stdout, end="")


def judged(clone, variables, *words):
    """Run the lessons' command."""
    return subprocess.run(
        ["python3", "manage.py", "lesson", *words],
        cwd=clone,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def expect(done, code):
    """Return what was run; exit if it did not end with this exit code."""
    if done.returncode != code:
        command = " ".join(map(str, done.args))
        sys.exit(f"error: {command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


def test(clone, variables):
    """Run the tests, and look for what they left."""
    say("make test")
    done = subprocess.run(
        ["make", "test"], cwd=clone, env=variables, stdin=subprocess.DEVNULL, check=False
    )
    if done.returncode:
        sys.exit(f"error: make test ended with {done.returncode}")
    nothing_is_left(clone.parent)


def nothing_is_left(folder, log=""):
    """Exit if a process that was started in the folder still runs, or a port in the log is open."""
    if left := [describe(process) for process in processes_of(folder)]:
        sys.exit("error: left running: " + ", ".join(left))
    for port in set(re.findall(r"127\.0\.0\.1:(\d+)", log)):
        with socket.socket() as client:
            if not client.connect_ex(("127.0.0.1", int(port))):
                sys.exit(f"error: port {port} is still open")


def processes_of(folder):
    """Yield the processes that have the folder's home, or run in it, or run a program of it."""
    home = f"HOME={folder / 'home'}"
    for process in Path("/proc").glob("[0-9]*"):
        try:
            places = [(process / link).readlink() for link in ("cwd", "exe")]
            inside = any(place.is_relative_to(folder) for place in places)
            if inside or home in (process / "environ").read_text("latin-1").split("\0"):
                yield process
        except OSError:
            continue  # it has ended, or is another user's


def describe(process):
    """Return the process's number and command."""
    try:
        return process.name + " " + (process / "cmdline").read_text("latin-1").replace("\0", " ")
    except OSError:
        return process.name


def say(what):
    """Print a heading."""
    print(f"\n== {what}, on a bare machine", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
