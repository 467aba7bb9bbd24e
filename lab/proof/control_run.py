"""Running negative controls, each against an empty shop."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.db import connection

from lab.proof import testbed
from lab.proof.controls import CONTROLS, DRAIN, EMPTY, Control
from lab.proof.progress import Progress
from lab.proof.result import Result
from lab.proof.run import prove
from lab.proof.testbed import Testbed
from loadtest.run_plan import RunPlan


@dataclass(slots=True)
class Outcome:
    """What a control came to.

    Attributes:
        red: properties that failed.
        result: of the proof.
    """

    control: Control
    result: Result
    red: list[str] = field(default_factory=list)

    @property
    def caught(self) -> bool:
        """Whether the checker saw what it had to see."""
        if not self.control.reddens:
            return self.result.outcome == "pass"
        return bool(set(self.red) & set(self.control.reddens))

    def to_json(self) -> dict[str, Any]:
        """A line of ``prove --controls --json``."""
        return {
            "control": self.control.name,
            "off": self.control.off,
            "expected": list(self.control.reddens),
            "red": self.red,
            "details": {
                judged.id: judged.detail
                for judged in self.result.verdict.properties
                if judged.id in self.control.reddens
            },
            "caught": self.caught,
            "counts": self.result.verdict.counts,
        }


Watch = Callable[[RunPlan, str], Callable[[Progress], None]]
"""Returns the function that is called with the progress of a plan of this name."""


def run(names: Sequence[str], seed: int, buyers: int, watch: Watch) -> Iterator[Outcome]:
    """Run controls one after the other, each against an empty shop.

    Args:
        names: of ``CONTROLS``.
        seed: of the buyers.
        buyers: at once.
        watch: called with each control's plan and name.

    Raises:
        StackError, LoadFailed: a shop could not be started or a load not generated.
    """
    with ExitStack() as shops:
        where: dict[tuple[object, ...], Testbed] = {}
        for control in CONTROLS:
            if control.name not in names:
                continue
            with _switched_off(control):
                if control.shop not in where:
                    # One shop for all that differ in the database alone.
                    shops.close()
                    extra = {
                        "LAB_SABOTAGE": control.sabotage,
                        "LAB_WITHOUT": ",".join(control.without),
                    }
                    shop = shops.enter_context(testbed.started(control.faults, extra))
                    where = {control.shop: shop}
                yield _one(control, where[control.shop], seed, buyers, watch)


def _one(control: Control, shop: Testbed, seed: int, buyers: int, watch: Watch) -> Outcome:
    plan = RunPlan(
        buyers=buyers,
        seed=seed,
        stock=round(buyers * control.units),
        limit=control.limit,
        strategy=control.strategy,
        mix=control.mix,
        minutes=control.minutes,
        faults=control.faults,
    )
    with tempfile.TemporaryDirectory(prefix="control-") as folder:
        tell = watch(plan, control.name)
        result = prove(plan, shop, Path(folder), tell, patience=DRAIN)
    return Outcome(control, result, [judged.id for judged in result.verdict.broken])


@contextmanager
def _switched_off(control: Control) -> Iterator[None]:
    execute(control.before)
    try:
        yield
    finally:
        execute((*EMPTY, *control.after))


def execute(statements: tuple[str, ...]) -> None:
    """Execute SQL, such as `EMPTY`, and begin with new sessions."""
    # One by one: ALTER SYSTEM refuses to share a transaction.
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
    # The next session is a new one: it may be among those that were just ended.
    connection.close()
    connection.close_pool()  # type: ignore[attr-defined]  # PostgreSQL's backend has it
