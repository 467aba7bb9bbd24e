"""Fail if the repository holds what looks like a secret and is not in `.secrets.baseline`.

The baseline lists the passwords of tests. Line numbers do not matter, so that moving them is no
finding. After a look at each finding, accept them with

    .venv/bin/detect-secrets -c 2 scan --baseline .secrets.baseline
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

BASELINE = Path(__file__).resolve().parent.parent / ".secrets.baseline"


def found(baseline: Path) -> dict[tuple[str, str, str], int]:
    """Return the line of each finding, by file, kind and hash."""
    results = json.loads(baseline.read_text(encoding="utf-8"))["results"]
    return {
        (file, finding["type"], finding["hashed_secret"]): finding["line_number"]
        for file, findings in results.items()
        for finding in findings
    }


def main() -> None:
    """Scan the files that git knows.

    Raises:
        SystemExit: names the new findings.
    """
    program = Path(sys.executable).with_name("detect-secrets")
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copy(BASELINE, folder)
        scan = [str(program), "-c", "2", "scan", "--baseline", copy]
        subprocess.run(scan, cwd=BASELINE.parent, check=True)
        now = found(Path(copy))
    new = sorted(
        (file, line, kind)
        for (file, kind, digest), line in now.items()
        if (file, kind, digest) not in found(BASELINE)
    )
    for file, line, kind in new:
        print(f"{file}:{line}: {kind}")
    if new:
        sys.exit(f"error: {len(new)} possible secrets; {Path(__file__).name} says how to accept")
    print(f"{len(now)} known passwords of tests, nothing else")


if __name__ == "__main__":
    main()
