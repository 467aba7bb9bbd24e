"""What goes along when the shop is taken home, and what is changed on the way.

Whole files go along as they are, except for the shop's name. Documents lose the paragraphs that
speak of what stays here. The few places where code names the lab are listed with what they become.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from lab.take_home.pinned import without

PROJECT = Path(__file__).resolve().parent.parent.parent
FILES = Path(__file__).resolve().parent / "files"

NAME, SLUG = "Flash sale", "flash-sale"
"""The shop's name here, and as part of other names."""

TAKEN = (
    *("shop/", "inventory/", "locking/", "serving/", "development/"),
    *("docker/", "docker-compose.yml", "Dockerfile", ".dockerignore", ".env.example"),
    *("gunicorn.conf.py", "manage.py", "conftest.py", ".importlinter", ".gitignore", "LICENSE"),
    *(".ci/environment.py", "requirements/production.txt", "requirements/telemetry.txt"),
    *("requirements.txt", "requirements/dev.txt", "pyproject.toml"),
)

DOCUMENTS = {
    name: f"docs/{name}"
    for name in (
        *("changing.md", "deploying.md", "kubernetes.md", "operations.md", "payments.md"),
        *("backup.md", "upgrading.md"),
    )
}

STAYS = re.compile(
    r"\b(labs?|loadtest|course|benchmarks?|bench|locust|mutants?|proofs?|demo)\b"
    r"|make (?!test|run|lint|types|format|messages|take-home)\w",
    re.IGNORECASE,
)
"""What a taken-home shop does not have."""

STAYING_SERVICES = re.compile(r"profiles: \[(demo|load)\]")
STAYING_STAGES = re.compile(r" AS (demo|load)\b| AS (demo|load)-packages\b")

STAYING_SETTINGS = re.compile(
    r"""(?mx)
    ^\[\[tool\.mypy\.overrides\]\]\nmodule\ =\ "lab\..*\n.*\n\n  # an override for one module
    | ^"(?:examples|loadtest|course|lab)/.*\n  # a line about its files
    | "(?:lab|loadtest|course|forks|guarded)(?:\.[\w.*]+)?",\   # an item of a list
    | ,\ "(?:lab|loadtest|course|forks|guarded)(?:\.[\w.*]+)?"  # its last item
    """
)

STAYING_PACKAGES = {
    "requirements.txt": {"locust", "aiosmtpd", "lupa"},
    "requirements/dev.txt": {
        *("simpy", "fastapi", "uvicorn", "uvloop", "asyncpg", "schemathesis"),
        *("python-redis-lock", "pottery", "portalocker"),
    },
}

COURSE = """\
[importlinter:contract:course]
name = the course teaches without a shop
type = forbidden
source_modules = course
forbidden_modules =
    inventory
    serving

"""

REPLACED = {
    "pyproject.toml": [
        ("lab.settings", "development.settings"),
        (': reference, load test and template."', '."'),
        (', "locust.*"', ""),
    ],
    "shop/environment.py": [
        ('("lab.settings", "development.settings")', '("development.settings",)')
    ],
    "manage.py": [('{"lab": "lab.stack.entry", "development"', '{"development"')],
    "conftest.py": [('("lab.settings", "shop.tests.settings")', '("shop.tests.settings",)')],
    "serving/tests/test_foreign_project.py": [('"lab", "loadtest", "course")', '"development")')],
    ".importlinter": [
        (COURSE, ""),
        ("    course\n", ""),
        ("    lab\n", ""),
        ("    loadtest\n", ""),
        ("name = lab -> development", "name = development"),
        (", lab -> course -> locking, and lab -> loadtest", ""),
        (" | loadtest | course", ""),
    ],
}
"""Exact texts that name what stays here, by file; each must be there."""


class Changed(Exception):
    """A file here no longer has a text that is replaced."""


def copy(folder: Path, name: str) -> None:
    """Copy the shop into an empty folder.

    Args:
        folder: exists.
        name: the shop's name, which replaces the name here.
    """
    for path in _tracked():
        if path in DOCUMENTS.values() or path.startswith(TAKEN):
            _write(PROJECT, folder, path, name)
    for source in sorted(FILES.rglob("*")):
        if source.is_file():
            _write(FILES, folder, str(source.relative_to(FILES)), name)


def _tracked() -> Iterator[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    yield from (path for path in listed.stdout.split("\0") if path and (PROJECT / path).exists())


def _write(origin: Path, folder: Path, relative: str, name: str) -> None:
    source, target = origin / relative, folder / relative
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        text = source.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        target.write_bytes(source.read_bytes())
    else:
        target.write_text(taken(relative, text, name), encoding="utf-8")
    target.chmod(source.stat().st_mode & 0o777)


def taken(relative: str, text: str, name: str) -> str:
    """Return a file's text as it is taken home.

    Raises:
        Changed: it lacks a text that is replaced.
    """
    for before, after in REPLACED.get(relative, ()):
        if before not in text:
            raise Changed(f"{relative} no longer has {before!r}: see lab/take_home/copying.py")
        text = text.replace(before, after)
    if relative in DOCUMENTS.values():
        text = _document(text)
    elif relative == "docker-compose.yml":
        text = _without(text, r"(?m)^(?=(?:  #.*\n)*  [\w-]+:$)", STAYING_SERVICES)
    elif relative == "Dockerfile":
        text = _without(text, r"(?m)\n(?=\n(?:#.*\n)*(?:ARG .*\n)?FROM )", STAYING_STAGES, "\n")
        text = text.partition("\n")[2]  # the line that lists the images
        text = text.partition("\n")[2] if text.startswith("#") else text
    elif relative == "pyproject.toml":
        text = STAYING_SETTINGS.sub("", text)
    elif relative in STAYING_PACKAGES:
        text = without(text, STAYING_PACKAGES[relative])
    if relative == "LICENSE":  # whose notice must stay
        return text
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return text.replace(NAME, name).replace(SLUG, slug)


def _without(text: str, between: str, staying: re.Pattern[str], joint: str = "") -> str:
    return joint.join(part for part in re.split(between, text) if not staying.search(part))


def _document(text: str) -> str:
    """Drop the paragraphs that speak of what stays here; unlink the documents that do too."""
    kept: list[str] = []
    drop_code = False
    for block in re.split(r"\n\n(?=\S)", _with_code(text)):
        code = block.startswith("```")
        gone = bool(STAYS.search(_rows(block))) or (code and drop_code)
        drop_code = gone and block.rstrip().endswith(":")
        if not gone:
            kept.append(_rows(block).replace("\0", "\n"))
    text = "\n\n".join(kept).rstrip() + "\n"
    # A heading without a text below it.
    text = re.sub(r"(?m)^(#{2,}) .*\n\n(?=\1 |# |\Z)", "", text)
    return re.sub(r"\[([^\]]+)\]\(([^)#:]+)(#[^)]*)?\)", _linked, text)


def _with_code(text: str) -> str:
    """Keep the empty lines of code from splitting it."""
    return re.sub(r"(?ms)^```.*?^```$", lambda code: code[0].replace("\n\n", "\0\n"), text).replace(
        "\0\n", "\n\0"
    )


def _rows(block: str) -> str:
    """Drop the rows of a table, and the items of a list, that speak of what stays here."""
    if not block.startswith(("|", "- ")):
        return block
    parts = re.split(r"\n(?=\||- )", block)
    return "\n".join(part for part in parts if not STAYS.search(part))


def _linked(link: re.Match[str]) -> str:
    path = link[2]
    above = path.removeprefix("../")
    here = path in DOCUMENTS or (above != path and above.startswith(TAKEN))
    return link[0] if here else link[1]
