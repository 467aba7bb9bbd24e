"""Each transaction locks several rows in one order; otherwise two could wait for each other.

A lost order deadlocks by chance, and rarely, so this reads the code instead of running it.
"""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

from shop import environment

SOURCES = [
    path
    for app in ("inventory", "shop")
    for path in sorted((environment.PROJECT / app).rglob("*.py"))
    if not {"tests", "migrations"} & set(path.parts)
]

IN_ORDER = re.compile(r'\.order_by\("[a-z]|\.get\(pk=|\.filter\(pk=')
"""What a query set that locks rows needs: an ascending order, or one row only."""

ROW_LOCK = re.compile(r"\bFOR (NO KEY )?UPDATE\b")


def unordered(source: str) -> list[str]:
    """Return the functions that lock more query sets than they order."""
    functions = [each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.FunctionDef)]
    texts = {function.name: ast.unparse(function).replace("'", '"') for function in functions}
    return [
        name
        for name, text in texts.items()
        if text.count(".select_for_update(") > len(IN_ORDER.findall(text))
    ]


def test_lock_order_is_missed_where_it_is_missing() -> None:
    locks = "def lock():\n    rows = Order.objects.filter({}).select_for_update(){}\n"
    assert unordered(locks.format("pk__in=ids", "")) == ["lock"]
    assert unordered(locks.format("pk__in=ids", ".order_by('-pk')")) == ["lock"]
    assert unordered(locks.format("pk__in=ids", ".order_by('pk')")) == []
    assert unordered(locks.format("pk=order", "")) == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_row_locks_of_query_sets_have_an_order(path: Path) -> None:
    assert unordered(path.read_text()) == []


def test_row_locks_in_sql_have_an_order() -> None:
    found = []
    for path in SOURCES:
        if ROW_LOCK.search(path.read_text()):
            name = ".".join(path.relative_to(environment.PROJECT).with_suffix("").parts)
            module = importlib.import_module(name)
            # As they are sent: some are made of several parts.
            texts = [text for text in vars(module).values() if type(text) is str]
            found += [each for text in texts for each in text.split(";") if ROW_LOCK.search(each)]
    statements = [each for each in found if "SELECT" in each]
    assert len(statements) >= 2
    assert [statement for statement in statements if "ORDER BY" not in statement] == []


def test_upserts_of_several_rows_have_an_order() -> None:
    """Each row is locked when it is inserted or updated, so it counts as a lock."""
    texts = [
        node.value
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    upserts = [
        before.rpartition("INSERT INTO")[2]
        for text in texts
        for before in text.split("DO UPDATE")[:-1]
    ]
    of_several = [upsert for upsert in upserts if "SELECT" in upsert]
    assert len(of_several) >= 1
    assert [each for each in of_several if "ORDER BY" not in each] == []
