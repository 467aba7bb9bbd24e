"""Make the virtual environment and install the packages, with a counter; the Makefile calls this.

Any Python 3 must be able to read this file, so that an old one can report what is missing.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

OLDEST, NEWEST = (3, 11), (3, 14)  # what the pinned packages are published for
STEP = 10  # packages between two lines where the output is not a terminal
POLL = 0.2  # seconds between two counts of what is installed


class Line:
    """One line of progress: rewritten on a terminal, printed now and then elsewhere."""

    def __init__(self, doing):
        self.doing, self.shown = doing, 0
        self.terminal = sys.stdout.isatty()

    def show(self, done, total, name=""):
        """Show how many packages are done, and which is the latest."""
        if self.terminal:
            width = shutil.get_terminal_size().columns - 1  # 80 where a terminal tells none
            text = f"  {self.doing}: {done} of {total}  {name}"
            print("\r\033[K" + text[:width], end="", flush=True)
        elif done >= self.shown + STEP:
            self.shown = done
            print(f"  {self.doing}: {done} of {total}", flush=True)

    def end(self):
        """Clear the line."""
        if self.terminal:
            print("\r\033[K", end="", flush=True)


def main(folder, *requirements):
    """Bring the environment in `folder` up to what the files `requirements` list.

    Raises:
        SystemExit: with one line that says what is missing.
    """
    if sys.version_info < OLDEST:
        sys.exit(
            "error: Python 3.11 or newer is needed; this is {}.{}. "
            "Name another one: make PYTHON=python3.13 …".format(*sys.version_info)
        )
    folder = Path(folder)
    _refuse_unwritable(folder)
    started = time.monotonic()
    python = folder / "bin" / "python"
    if not _runs(python):
        print(f"Making a virtual environment in {folder} …", flush=True)
        if subprocess.run([sys.executable, "-m", "venv", str(folder)], check=False).returncode:
            sys.exit(f"error: {sys.executable} could not make {folder}; its reason is above.")
    packages = _packages(requirements)
    print(f"Installing what is missing in {folder} …", flush=True)
    _install(python, requirements, packages)
    print(f"Installed in {time.monotonic() - started:.0f} s.")


def _refuse_unwritable(folder):
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not os.access(nearest, os.W_OK):
        sys.exit(
            f"error: {nearest} cannot be written, so nothing can be installed there. "
            "Use a folder that can be: make VENV=/some/folder …"
        )


def _runs(python):
    """Whether this environment is there and was not left without pip by an interrupted start."""
    try:
        command = [str(python), "-m", "pip", "--version"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _packages(requirements):
    """Return the names of all pinned packages; a marker may exclude a few of them."""
    names = set()
    for path in requirements:
        names.update(re.findall(r"(?m)^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==", Path(path).read_text()))
    return names


def _install(python, requirements, packages):
    command = [str(python), "-m", "pip", "install", "--disable-pip-version-check"]
    command += ["--progress-bar", "off", "--no-color"]
    for path in requirements:
        command += ["-r", path]
    variables = {**os.environ, "PYTHONUNBUFFERED": "1"}
    # One stream: pip's warnings would tear the line of progress. What matters is shown at the end.
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    pip = subprocess.Popen(command, env=variables, **streams)
    try:
        output = _follow(pip, python, len(packages))
    except BaseException:
        pip.terminate()
        raise
    finally:
        pip.wait()
    if pip.returncode:
        reasons = [line for line in output if line.startswith("ERROR")] or output[-5:]
        cure = "Fix it and repeat the command."
        if sys.version_info[:2] > NEWEST:
            cure = "This Python, {}.{}, is newer than they are: make PYTHON=python{}.{} …".format(
                *sys.version_info[:2], *NEWEST
            )
        sys.exit(
            "".join(reasons)
            + "error: the packages could not be installed, for the reason above. "
            + cure
        )


def _follow(pip, python, total):
    """Show what pip collects, then count what it has installed; return what it printed."""
    output, done, line = [], 0, Line("collecting")
    for text in pip.stdout:
        output.append(text)
        package = re.match(r"(?:Collecting|Requirement already satisfied:) ([^ ;]+)", text)
        file = re.match(r"Processing \S*/([^/-]+-[^/-]+)[^/]*\.(?:whl|tar\.gz)", text)
        if package or file:
            done += 1
            name = package[1].replace("==", " ") if package else file[1].replace("-", " ")
            total = max(done, total)  # a package that is not pinned by name
            line.show(done, total, name)
        elif text.startswith("Ignoring "):  # not for this system
            total -= 1
        elif "Retrying" in text:
            line.show(done, total, "waiting for the package index")
        elif text.startswith("Installing collected packages"):
            _count(pip, python, text.count(",") + 1)
    line.end()
    return output


def _count(pip, python, total):
    """Count what appears in the environment, for pip is silent meanwhile."""
    site = next(python.parent.parent.glob("lib/*/site-packages"))
    before = done = len(list(site.glob("*.dist-info")))
    line = Line("installing")
    while pip.poll() is None and done - before < total:
        line.show(done - before, total)
        time.sleep(POLL)
        done = len(list(site.glob("*.dist-info")))
    line.end()


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
