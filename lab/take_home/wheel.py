"""Write a wheel with Python alone: a zip file of the sources, and four files that describe them.

The format is that of PyPA's "Binary distribution format".
"""

from __future__ import annotations

import tomllib
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo


def build_wheel(about: Path, sources: Mapping[str, bytes], folder: Path) -> None:
    """Write the wheel of a pure Python package into a folder; the same sources make the same file.

    Args:
        about: its `pyproject.toml`.
        sources: its files by path.
        folder: is made unless it is there.
    """
    project = tomllib.loads(about.read_text(encoding="utf-8"))["project"]
    wheel = f"{project['name'].replace('-', '_')}-{project['version']}"
    metadata = [
        "Metadata-Version: 2.1",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Requires-Python: {project['requires-python']}",
        *(f"Requires-Dist: {dependency}" for dependency in project["dependencies"]),
    ]
    scripts = [f"{name} = {function}" for name, function in project["scripts"].items()]
    info = f"{wheel}.dist-info"
    files = {
        **sources,
        f"{info}/METADATA": _text(*metadata),
        f"{info}/WHEEL": _text("Wheel-Version: 1.0", "Root-Is-Purelib: true", "Tag: py3-none-any"),
        f"{info}/entry_points.txt": _text("[console_scripts]", *scripts),
    }
    record = [f"{path},{_digest(content)},{len(content)}" for path, content in files.items()]
    files[f"{info}/RECORD"] = _text(*record, f"{info}/RECORD,,")
    folder.mkdir(parents=True, exist_ok=True)
    with ZipFile(folder / f"{wheel}-py3-none-any.whl", "w") as archive:
        for path, content in files.items():
            archive.writestr(ZipInfo(path), content, ZIP_DEFLATED)


def _text(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _digest(content: bytes) -> str:
    return "sha256=" + urlsafe_b64encode(sha256(content).digest()).rstrip(b"=").decode()
