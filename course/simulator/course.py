"""The generated parts of the course, `docs/locks.md`: code of the lessons, and pictures.

The prose is written by hand.  Two kinds of comments mark what this module writes after them:

- `<!-- code: setnx-expire acquire release -->`: these functions of the lesson's file
- `<!-- picture: setnx-expire/crash -->`: the scenario as a picture, and folded the same schedule on
  the fixed lock; the pictures themselves are in `docs/locks/`

A test compares document and pictures with what this module writes today.
"""

from __future__ import annotations

import ast
import re
import textwrap
from importlib import import_module
from inspect import getsource
from pathlib import Path

from course.lessons import Lesson, find
from course.simulator import scenarios
from course.simulator.picture import picture
from course.simulator.position import position, shown_moves
from course.simulator.scenario import PRODUCTION, Scenario

CODE = re.compile(
    r"<!-- code: (?P<lesson>[\w-]+) (?P<names>[\w ]+) -->\n(?:```python\n.*?\n```\n)?", re.DOTALL
)
PICTURE = re.compile(
    r"<!-- picture: (?P<lesson>[\w-]+)/(?P<scenario>[\w-]+) -->\n(?:!\[.*?</details>\n)?", re.DOTALL
)
FOLDER = "locks"


def up_to_date(document: str) -> str:
    """Return the document with today's code and pictures.

    Raises `KeyError` for a lesson, function or scenario that does not exist.
    """
    document = CODE.sub(
        lambda found: f"{_marker(found)}{_code(find(found['lesson']), found['names'].split())}",
        document,
    )
    return PICTURE.sub(
        lambda found: f"{_marker(found)}{_links(_find(found['lesson'], found['scenario']))}",
        document,
    )


def pictures(document: str) -> dict[str, str]:
    """Return the pictures that the document shows, by file name."""
    found: dict[str, str] = {}
    for block in PICTURE.finditer(document):
        scenario = _find(block["lesson"], block["scenario"])
        broken, mended = shown_moves(scenario)
        found[f"{_name(scenario)}.svg"] = picture(position(scenario, broken))
        fixed = position(scenario, mended, mended=True)
        found[f"{_name(scenario)}-mended.svg"] = picture(fixed)
    return found


def update_document(path: Path) -> bool:
    """Write today's code and pictures; return whether anything changed."""
    before = path.read_text(encoding="utf-8")
    after, files = up_to_date(before), pictures(before)
    folder = path.parent / FOLDER
    folder.mkdir(exist_ok=True)
    old = {file.name: file.read_text(encoding="utf-8") for file in folder.glob("*.svg")}
    for name in old.keys() - files.keys():
        (folder / name).unlink()
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")
    path.write_text(after, encoding="utf-8")
    return after != before or files != old


def is_up_to_date(path: Path) -> bool:
    """Return whether `update_document` would change nothing."""
    text = path.read_text(encoding="utf-8")
    files = (path.parent / FOLDER).glob("*.svg")
    kept = {file.name: file.read_text(encoding="utf-8") for file in files}
    return up_to_date(text) == text and pictures(text) == kept


def _marker(found: re.Match[str]) -> str:
    return found[0].partition("\n")[0] + "\n"


def _code(lesson: Lesson, names: list[str]) -> str:
    source = getsource(import_module(f"course.lessons.{lesson.module}"))
    lines = source.splitlines()
    parts = []
    for name in names:
        node = _named(ast.parse(source), name)
        body = node.body
        last = node.end_lineno or node.lineno
        own = lines[node.lineno - 1 : last]
        first = body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):  # its docstring
            begin, end = first.lineno - node.lineno, (first.end_lineno or 0) - node.lineno
            own = own[:begin] + own[end + 1 :]
        parts.append(textwrap.dedent("\n".join(own)))
    return "```python\n" + "\n\n\n".join(parts) + "\n```\n"


def _named(tree: ast.Module, name: str) -> ast.FunctionDef:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return node
    raise KeyError(f"no function {name}")


def _find(lesson: str, slug: str) -> Scenario:
    for scenario in scenarios.of(find(lesson)):
        if scenario.slug == slug:
            return scenario
    raise KeyError(f"lesson {lesson} has no scenario {slug}")


def _name(scenario: Scenario) -> str:
    return f"{scenario.lesson.slug}-{scenario.slug}"


def _links(scenario: Scenario) -> str:
    by = scenario.mended_by
    fixed = "the production lock" if by == PRODUCTION else f"lesson {find(by).number}"
    title, name = scenario.title, f"{FOLDER}/{_name(scenario)}"
    return (
        f"![{title}]({name}.svg)\n<details><summary>The same schedule on {fixed}</summary>\n\n"
        f"![mended]({name}-mended.svg)\n\n</details>\n"
    )
