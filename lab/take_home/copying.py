"""What goes along when the shop is taken home, and what is changed on the way.

Whole files go along as they are, except for the shop's name. Documents lose the paragraphs that
speak of what stays here. The few places where code names the lab are listed with what they become.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

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

PAYMENTS = DOCUMENTS["payments.md"]

STAYS = re.compile(
    r"\b(labs?|loadtest|course|benchmarks?|bench|locust|mutants?|proofs?|demo|concerts?)\b"
    r"|`make (?!test|run|lint|types|format|messages|take-home)\w",
    re.IGNORECASE,
)
"""What a taken-home shop does not have."""

SERVICE = re.compile(r"(?m)^(?:  #.*\n)*  [\w-]+:\n(?:(?:    .*)?\n)*")
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

OF_THE_PROOF = """\
# The tests of the checker run the model of the shop.
ignore_imports =
    loadtest.tests.** -> shop.tests.model
"""

DEMO_IS = "development, with everything built in, run `make run`"

REPLACED = {
    "pyproject.toml": [
        ("lab.settings", "development.settings"),
        (': reference, load test and template."', '."'),
        (', "locust.*"', ""),
    ],
    "shop/environment.py": [
        ('("lab.settings", "development.settings")', '("development.settings",)'),
        (", or build the image with SHOP_TARGET=demo", ", or copy it here"),
        ("1: demo mode; unsafe strategies are allowed", "1: the settings of development/"),
    ],
    "manage.py": [
        ('{"lab": "lab.stack.entry", "development"', '{"development"'),
        ("Run `make demo` or `make test`", "Run `make run` or `make test`"),
    ],
    "shop/operating/safe_start.py": [("a demo with everything built in, run `make demo`", DEMO_IS)],
    "conftest.py": [('("lab.settings", "shop.tests.settings")', '("shop.tests.settings",)')],
    "serving/tests/test_worker.py": [('"lab", "loadtest", "course")', '"development")')],
    ".importlinter": [
        (COURSE, ""),
        ("    course\n", ""),
        ("    lab\n", ""),
        ("    loadtest\n", ""),
        ("name = lab -> development", "name = development"),
        (", lab -> course -> locking, and lab -> loadtest", ""),
        (" | loadtest | course", ""),
        (OF_THE_PROOF, ""),
    ],
}
"""Exact texts that name what stays here, by file; each must be there."""

OF_THE_DEMO = {
    "docker-compose.yml": [
        r"; --demo: with .*",
        r"; in demo mode, the mails too",
        r"  SHOP_DEMO: .*\n",
        r"  provider:\n",
        r", Locust(?=\n)",
    ],
    ".env.example": [
        r" The\n# profile `demo` starts a .*",
        r", such as the demo's provider with SHOP_DEMO=0",
        r" The profile `demo` starts one .*\n# sends nothing on: .*",
        r"# 1 adds demo logins (.*\n)+?\n",
        r"# The image to build: (.*\n)+?\n",
        r"`demo` \(the .*\n# `load` \(Locust\), ",
        r"LOCUST_PORT=.*\n",
    ],
    "docker/new-env": [
        r", or docker/new-env --demo .*\n# shop with .* no money(?=\.)",
        r"    if \[ .*--demo \](.*\n)+?    fi\n",
    ],
    "docker/secrets.yml": [r"  psp:\n(    .*\n)+?(?=\n)"],
    "docker/rolling-restart": [r"\|locust"],
    "docker/nginx/nginx.conf": [r"    # The demo's payment(.*\n)+?    }\n\n(?=    #)"],
}
"""What only the demo has in production's files, by file; each must be there."""

OF_PAYMENTS = {
    "docs/deploying.md": [
        r", PSP_URL, PSP_KEY",
        r"(?s)(?<=`ALLOWED_HOSTS=\*`), and.*?is safe\)",
        r"A real payment provider.*\n",
    ],
    "docs/kubernetes.md": [r"\s+(\\\n\s+)?--from-literal=psp-key=.*secret=\S+", r",psp\.url=\S+"],
    "README.md": [r"- \[Payments\].*\n", r", another payment\n?\s*provider"],
    "docker-compose.yml": [r"  PSP_.*\n"],
    ".env.example": [r"# The payment provider's address(.*\n)+?\n", r"# 0 allows an (.*\n)+?\n"],
    "docker/new-env": [r" \| PSP_KEY= \| PSP_WEBHOOK_SECRET="],
    "docker/secrets.yml": [
        r"  psp-key\n#   psp-webhook-secret",
        r", psp-key, psp-webhook-secret",
        r"  (PSP_|psp-).*\n",
    ],
    "docker/kubernetes/shop/templates/_helpers.tpl": [
        r"- \{name: PSP_URL, .*\n",
        r' "PSP_KEY" "psp-key" "PSP_WEBHOOK_SECRET" "psp-webhook-secret"',
    ],
    "docker/kubernetes/shop/values.yaml": [
        r", psp\.url",
        r", psp-key, psp-webhook-secret",
        r"psp:\n.*\n\n",
    ],
}
"""What a shop without payments does not need there."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the shop is to be; all of it is a default in the table of environment variables.

    Attributes:
        name: on pages, in mails, API and admin.
        pages: whether buyers have pages, and not only the API.
        payments: whether orders are paid.
        languages: codes of Django, comma-separated; the first is the default.
    """

    name: str
    pages: bool = True
    payments: bool = True
    languages: str = "en,zh-hans"

    @classmethod
    def of(cls, environment: str) -> Self:
        """Return what an earlier copy of `shop/environment.py` says."""
        found = dict(re.findall(r'Variable\("(\w+)", "([^"]*)"', environment))
        return cls(
            name=found["SHOP_NAME"],
            pages=found.get("SHOP_PAGES", "1") == "1",
            payments=found.get("SHOP_PAYMENTS", "1") == "1",
            languages=found.get("SHOP_LANGUAGES", "en,zh-hans"),
        )

    def documents(self) -> set[str]:
        """Return the paths of the documents that it needs."""
        return {path for path in DOCUMENTS.values() if self.payments or path != PAYMENTS}

    def defaults(self) -> Mapping[str, str]:
        """Return the default of each variable that says so."""
        return {
            "SHOP_PAGES": str(int(self.pages)),
            "SHOP_PAYMENTS": str(int(self.payments)),
            "SHOP_LANGUAGES": self.languages,
        }


class Changed(Exception):
    """A file here no longer has a text that is replaced."""


def copy(folder: Path, wanted: Wanted) -> None:
    """Copy the shop into an empty folder.

    Args:
        folder: exists.
        wanted: its name replaces the name here.
    """
    for path in _tracked():
        if path in wanted.documents() or path.startswith(TAKEN):
            _write(PROJECT, folder, path, wanted)
    for source in sorted(FILES.rglob("*")):
        if source.is_file():
            _write(FILES, folder, str(source.relative_to(FILES)), wanted)


def _tracked() -> Iterator[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    yield from (path for path in listed.stdout.split("\0") if path and (PROJECT / path).exists())


def _write(origin: Path, folder: Path, relative: str, wanted: Wanted) -> None:
    source, target = origin / relative, folder / relative
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        text = source.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        target.write_bytes(source.read_bytes())
    else:
        target.write_text(taken(relative, text, wanted), encoding="utf-8")
    target.chmod(source.stat().st_mode & 0o777)


def taken(relative: str, text: str, wanted: Wanted) -> str:
    """Return a file's text as it is taken home.

    Raises:
        Changed: it lacks a text that is replaced.
    """
    for before, after in REPLACED.get(relative, ()):
        if before not in text:
            raise Changed(f"{relative} no longer has {before!r}: see lab/take_home/copying.py")
        text = text.replace(before, after)
    left_out = [*OF_THE_DEMO.get(relative, ())]
    if not wanted.payments:
        left_out += OF_PAYMENTS.get(relative, ())
    for pattern in left_out:
        text, times = re.subn(pattern, "", text)
        if not times:
            raise Changed(f"{relative} no longer has {pattern!r}: see lab/take_home/copying.py")
    if relative == "shop/environment.py":
        for variable, default in wanted.defaults().items():
            text = re.sub(rf'("{variable}", )"[^"]*"', rf'\1"{default}"', text)
    if relative in DOCUMENTS.values():
        text = _document(text, wanted.documents())
    elif relative == "docker-compose.yml":
        text = SERVICE.sub(lambda each: "" if STAYING_SERVICES.search(each[0]) else each[0], text)
    elif relative == "Dockerfile":
        stages = re.split(r"(?m)\n(?=\n(?:#.*\n)*(?:ARG .*\n)?FROM )", text)
        text = "\n".join(stage for stage in stages if not STAYING_STAGES.search(stage))
        text = text.partition("\n")[2]  # the line that lists the images
        text = text.partition("\n")[2] if text.startswith("#") else text
    elif relative == "pyproject.toml":
        text = STAYING_SETTINGS.sub("", text)
    elif relative in STAYING_PACKAGES:
        text = without(text, STAYING_PACKAGES[relative])
    if relative == "LICENSE":  # whose notice must stay
        return text
    slug = re.sub(r"[^a-z0-9]+", "-", wanted.name.lower()).strip("-") or "shop"
    names = {NAME: wanted.name, SLUG: slug}
    return re.sub("|".join(names), lambda found: names[found[0]], text)


def _document(text: str, documents: Collection[str]) -> str:
    """Drop the sections, the paragraphs and the links that speak of what stays here."""
    first, *others = re.split(r"(?m)^(?=## )", text)
    others = [each for each in others if not STAYS.search(each.partition("\n")[0])]
    text = "".join([first, *others])
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
    return re.sub(r"\[([^\]]+)\]\(([^)#:]+)(#[^)]*)?\)", partial(_linked, documents), text)


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


def _linked(documents: Collection[str], link: re.Match[str]) -> str:
    path = link[2]
    above = path.removeprefix("../")
    here = f"docs/{path}" in documents or (above != path and above.startswith(TAKEN))
    return link[0] if here else link[1]
