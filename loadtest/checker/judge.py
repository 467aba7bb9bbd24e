"""From files to a verdict."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

from loadtest.checker.evidence import Evidence
from loadtest.checker.properties import PROPERTIES
from loadtest.checker.properties.recovery import aftermaths
from loadtest.checker.verdict import Verdict
from loadtest.files import RunFiles
from loadtest.shop import Specification

# What a run must have seen, at least, for its verdict to mean something.
ENOUGH = {"ok": 1, "sold_out": 1, "duplicate": 1}


def judge(
    files: RunFiles,
    *,
    properties: Collection[str] = tuple(PROPERTIES),
    not_judged: Mapping[str, str] = MappingProxyType({}),
    enough: Mapping[str, int] = ENOUGH,
    allows_errors: bool = False,
    specification: Specification | None = None,
) -> Verdict:
    """Judge one run.

    Without a final snapshot, which was taken when everything had come to rest, every property is
    unknown. `properties` names those that the run can say something about: leaving one out is a
    decision of the caller, while one that is asked for and cannot be judged is unknown, and so is
    then the whole. `enough` is what P13 asks for (`ok`, `sold_out`, `duplicate`, `info`); under
    faults at least one unknown answer too. `allows_errors` says that a server error is one more
    unknown answer, and the buyer asked again. `specification` is the shop's own, by which P21
    judges.

    Raises `HistoryError`, `SnapshotError`, `FaultLogError` for files that cannot be understood,
    `OSError` for those that cannot be read, `ValueError` for a property that does not exist.
    """
    if strange := {*properties, *not_judged} - set(PROPERTIES):
        raise ValueError(f"no such property: {', '.join(sorted(strange))}")
    wanted = [each for each in PROPERTIES if each in properties and each not in not_judged]
    with Evidence(
        enough=enough, allows_errors=allows_errors, specification=specification
    ) as evidence:
        evidence.load(files)
        findings = [PROPERTIES[identity].judge(evidence) for identity in wanted]
        return Verdict(findings, _counts(evidence), aftermaths(evidence), dict(not_judged))


def _counts(evidence: Evidence) -> dict[str, int]:
    """The figures of a run: keys by outcome, keys refused for want of stock, and final units."""
    counts = {"ok": 0, "fail": 0, "info": 0}
    counts.update(evidence.rows("SELECT outcome, count(*) FROM purchase GROUP BY outcome"))
    counts["sold_out"] = evidence.value(
        "SELECT count(*) FROM purchase WHERE outcome = 'fail' AND sold_outs > 0"
    )
    counts["orders"] = evidence.value('SELECT count(DISTINCT id) FROM "order" WHERE snapshot = 0')
    counts["lost"] = evidence.value(
        """
        SELECT count(*) FROM purchase WHERE outcome = 'ok' AND NOT EXISTS (
            SELECT 1 FROM "order" AS o WHERE o.snapshot = 0 AND o.key = purchase.key
        )
        """
    )
    names = ("oversold", "available", "held", "confirmed", "total")
    sums = next(
        evidence.rows(
            """
            SELECT sum(max(0, held + confirmed - total)), sum(available), sum(held),
                   sum(confirmed), sum(total) FROM item WHERE snapshot = 0
            """
        )
    )
    return counts | {name: value or 0 for name, value in zip(names, sums, strict=True)}
