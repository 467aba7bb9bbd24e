"""Plant small bugs and count how many the tests find: `make mutation ARGS="rules --sample 20"`.

cosmic-ray changes one operator, number or condition of a module at a time, and this file adds the
same for SQL inside strings (`>=` becomes `>`, `AND` becomes `OR`, `ORDER BY` goes, …). A change
that no test notices has survived. It is printed as a difference: either a test is missing, or the
change cannot be observed. The score is the share of changes that were found.

The bugs are planted in a clone, so the work tree may be edited meanwhile. A sample of the possible
changes is tried, chosen by a seed, because each costs a start of pytest.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cosmic_ray.plugins
import parso
from cosmic_ray.commands.init import init
from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.operators.operator import Example, Operator
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import TestOutcome, WorkerOutcome, WorkItem

PROJECT = Path(__file__).parent.parent
SECONDS_PER_CHANGE = 180
"""A change that makes the tests hang counts as found."""


@dataclass(frozen=True)
class Subject:
    """Modules whose bugs certain tests must find.

    Attributes:
        modules: patterns of paths below the project.
        tests: arguments of pytest.
    """

    modules: tuple[str, ...]
    tests: tuple[str, ...]


SUBJECTS = {
    "rules": Subject(("inventory/selling/rules.py",), ("inventory/tests/test_rules.py",)),
    "guard": Subject(
        ("inventory/selling/guard.py",),
        (
            "inventory/tests/test_books.py",
            "inventory/tests/test_seller.py",
            "inventory/tests/test_services.py",
            "inventory/tests/test_cart.py",
            "inventory/tests/test_processes.py",
        ),
    ),
    "properties": Subject(
        ("loadtest/checker/properties/*.py",),
        ("loadtest/tests/test_checker.py", "loadtest/tests/test_recovery.py"),
    ),
    "money": Subject(
        ("shop/money.py",),
        ("shop/tests/test_currencies.py", "shop/tests/test_price.py", "shop/tests/test_admin.py"),
    ),
    "locks": Subject(
        ("locking/base.py", "locking/redis_lock.py"),
        (
            "locking/tests/test_redis_lock.py",
            "locking/tests/test_lost_answers.py",
            "locking/tests/test_renewal.py",
        ),
    ),
}

NO_BUGS = re.compile(
    r"core/(ReplaceBinaryOperator_BitOr_.*|RemoveDecorator|ReplaceBinaryOperator_Mod_.*"
    r"|ReplaceComparisonOperator_Is.*)"
)
"""Operators whose changes mostly change nothing (`int | None` in an annotation), or break
the import of the module, which every test finds."""


class ChangeSql(Operator):
    """Changes one comparison, connective or function in SQL text."""

    SQL = re.compile(r"\b(SELECT|UPDATE|INSERT|DELETE|WHERE|HAVING|GROUP BY|ORDER BY)\b")
    CHANGES = (
        (re.compile(r">="), ">"),
        (re.compile(r"<="), "<"),
        (re.compile(r"(?<= )>(?= )"), ">="),
        (re.compile(r"(?<= )<(?= )"), "<="),
        (re.compile(r"(?<= )=(?= )"), "<>"),
        (re.compile(r"<>"), "="),
        (re.compile(r"\bAND\b"), "OR"),
        (re.compile(r"\bOR\b"), "AND"),
        (re.compile(r"\bNOT EXISTS\b"), "EXISTS"),
        (re.compile(r"\bIS NOT\b"), "IS"),
        (re.compile(r"\bDISTINCT\b"), ""),
        (re.compile(r"\bORDER BY [\w.]+( DESC)?\n"), "\n"),
        (re.compile(r"(?<= )\+(?= )"), "-"),
        (re.compile(r"(?<= )-(?= )"), "+"),
        (re.compile(r"\bmin\("), "max("),
        (re.compile(r"\bmax\("), "min("),
        (re.compile(r"\bLEAST\("), "GREATEST("),
        (re.compile(r"\bGREATEST\("), "LEAST("),
    )

    def mutation_positions(self, node: Any) -> Iterator[tuple[Any, Any]]:
        """Yield the text's position once for each change that is possible in it."""
        for _ in self._changed(node):
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        """Return the text with one of its changes."""
        text = list(self._changed(node))[index]
        return type(node)(text, node.start_pos, node.prefix)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Show one."""
        return (Example("x = 'SELECT 1 WHERE a >= b'", "x = 'SELECT 1 WHERE a > b'"),)

    def _changed(self, node: Any) -> Iterator[str]:
        is_text = isinstance(node, parso.python.tree.String | parso.python.tree.FStringString)
        if not is_text or not self.SQL.search(node.value):
            return
        for pattern, other in self.CHANGES:
            for match in pattern.finditer(node.value):
                yield node.value[: match.start()] + other + node.value[match.end() :]


def main() -> int:
    """Try the changes, print those that survived and the score of each subject."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("subject", nargs="*", default=[*SUBJECTS], choices=[*SUBJECTS, []])
    parser.add_argument("--sample", type=int, default=60, help="changes per subject; default: 60")
    parser.add_argument("--seed", type=int, default=0, help="chooses the sample; default: 0")
    parser.add_argument("--revision", default="HEAD", help="the commit to try; default: HEAD")
    parser.add_argument("--json", help="file that gets the scores")
    options = parser.parse_args()
    cosmic_ray.plugins.OPERATOR_PROVIDERS["sql"] = {"ChangeSql": ChangeSql}
    scores: dict[str, dict[str, int]] = {}
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        clone = Path(folder) / "clone"
        subprocess.run(["git", "clone", "-q", PROJECT, clone], check=True)
        subprocess.run(["git", "checkout", "-q", options.revision], cwd=clone, check=True)
        os.chdir(clone)
        sys.path.insert(0, str(clone))
        from development.embedded import private_servers

        with private_servers(durable=False) as servers:
            os.environ.update(servers.urls.as_environment(), SHOP_DATA=str(servers.folder))
            for name in options.subject:
                scores[name] = try_subject(name, options.sample, options.seed)
    print("\n== mutation score: changes found by the tests, of those tried, of those possible")
    for name, score in scores.items():
        share = score["found"] / max(score["tried"], 1)
        print(
            f"{name:12} {share:4.0%}  {score['found']} of {score['tried']} of {score['possible']}"
        )
    if options.json:
        (PROJECT / options.json).write_text(json.dumps(scores, indent=2) + "\n")
    return 0


def try_subject(name: str, sample: int, seed: int) -> dict[str, int]:
    """Try a sample of a subject's changes.

    Args:
        name: the subject's.
        sample: how many changes.
        seed: chooses them.

    Returns:
        How many were `found`, `tried` and `possible`.

    Raises:
        SystemExit: the tests fail without any change, so that nothing can be said.
    """
    subject = SUBJECTS[name]
    modules = [path for pattern in subject.modules for path in sorted(Path().glob(pattern))]
    tests = [test for test in subject.tests if Path(test).exists()]
    command = shlex.join(
        [sys.executable, "-m", "pytest", "-q", "-x", "--reuse-db", "-p", "no:cacheprovider", *tests]
    )
    say(f"== {name}: {', '.join(map(str, modules))}")
    if subprocess.run(shlex.split(command), check=False, capture_output=True).returncode:
        sys.exit(f"error: the tests of {name} fail without a change: {command}")
    with use_db(f"../{name}.sqlite", WorkDB.Mode.create) as changes:
        init(modules, changes, {})
        possible = sorted((item for item in changes.work_items if is_a_bug(item)), key=place)
    chosen = random.Random(seed).sample(possible, min(sample, len(possible)))
    found = tried = 0
    for item in chosen:
        result = mutate_and_test(item.mutations, command, SECONDS_PER_CHANGE)
        if result.worker_outcome is not WorkerOutcome.NORMAL:
            continue
        tried += 1
        if result.test_outcome is TestOutcome.SURVIVED:
            say(f"\nsurvived:\n{result.diff}")
        else:
            found += 1
    return {"found": found, "tried": tried, "possible": len(possible)}


def is_a_bug(item: WorkItem) -> bool:
    """Return whether a change usually changes what the module does."""
    return not any(NO_BUGS.fullmatch(mutation.operator_name) for mutation in item.mutations)


def place(item: WorkItem) -> tuple[str, Any, str, int]:
    """Return where a change is: the same in each run, for the sample."""
    [mutation] = item.mutations
    return (
        str(mutation.module_path),
        mutation.start_pos,
        mutation.operator_name,
        mutation.occurrence,
    )


def say(text: str) -> None:
    """Print at once, since a run takes an hour."""
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
