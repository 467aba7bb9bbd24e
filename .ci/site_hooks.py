"""Hooks of MkDocs: pages that are generated, links out of docs/, and no inline scripts.

The demo serves the site under the shop's policy, which lets no inline script run. So each one that
the theme writes becomes a file.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

PROJECT = Path(__file__).resolve().parent.parent
FOLDERS = "course|development|examples|inventory|lab|loadtest|locking|serving|shop"
OUTSIDE = re.compile(rf"\[([^\]]*)\]\(\.\./((?:{FOLDERS})/[^)]*)\)")
INLINE = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages."""
    sys.path.insert(0, str(PROJECT))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.tests.settings")
    import django

    django.setup()
    changelog = (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8")
    pages = {"api": _api(), "changelog": changelog}
    for name, content in pages.items():
        files.append(File.generated(config, f"reference/{name}.md", content=content))
    return files


def _table(head: str, rows: Iterable[str]) -> str:
    rule = "|".join("---" for _ in head.split("|"))
    return "\n".join(f"| {line} |" for line in (head, rule, *rows))


def _api() -> str:
    from shop.api.openapi import document

    intro = (
        "A running shop describes its API at `/api/v1/openapi.json`, with a form for each call at "
        "`/api/docs`. Errors are `application/problem+json` (RFC 9457) with a stable `code`."
    )
    parts = ["# API", intro]
    for path, calls in document()["paths"].items():
        for method, call in calls.items():
            answers = call["responses"].items()
            rows = [f"{status} | {_meaning(answer)}" for status, answer in answers]
            parts += [f"## {method.upper()} {path}", f"{call['summary']}."]
            parts += [call.get("description", ""), _table("status | meaning", rows)]
    return "\n\n".join(parts)


def _meaning(answer: dict[str, Any]) -> str:
    if "$ref" in answer:
        return ", ".join(f"`{code}`" for code in answer["$ref"].rpartition("/")[2].split("."))
    return " ".join(answer["description"].split()).replace("|", "\\|")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Add the lessons; let links to files outside docs/ lead to their page, or name the file."""
    from course.report import with_chapters

    markdown = with_chapters(markdown)
    markdown = markdown.replace("](../CHANGELOG.md)", "](reference/changelog.md)")
    return OUTSIDE.sub(r"\1 (`\2`)", markdown)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Move inline scripts and styles into files."""
    up = "../" * (page.url.count("/") if page.url.strip("./") else 0)

    def moved(match: re.Match[str]) -> str:
        kind, text = match.groups()
        suffix = "js" if kind == "script" else "css"
        name = f"assets/inline/{hashlib.sha256(text.encode()).hexdigest()[:16]}.{suffix}"
        target = Path(config["site_dir"], name)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        if kind == "script":
            return f'<script src="{up}{name}"></script>'
        return f'<link rel="stylesheet" href="{up}{name}">'

    return INLINE.sub(moved, output)
