"""From files to a verdict."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from loadtest.checker.evidence import FINAL, Evidence
from loadtest.checker.properties import PROPERTIES
from loadtest.checker.properties.recovery import aftermaths
from loadtest.checker.verdict import Verdict
from loadtest.shop import Specification

# What a run must have seen, at least, for its verdict to mean something.
ENOUGH = {"ok": 1, "sold_out": 1, "duplicate": 1}


def judge(
    histories: Sequence[str | Path],
    snapshot: str | Path | None,
    *,
    during: Sequence[str | Path] = (),
    ledger: str | Path | None = None,
    deliveries: str | Path | None = None,
    terms: str | Path | None = None,
    faults: str | Path | None = None,
    properties: Collection[str] = tuple(PROPERTIES),
    not_judged: Mapping[str, str] = MappingProxyType({}),
    enough: Mapping[str, int] = ENOUGH,
    allows_errors: bool = False,
    specification: Specification | None = None,
) -> Verdict:
    """Judge one run.

    `histories` are the files of all its recorders and `snapshot` the final one, taken when
    everything had come to rest; without it every property is unknown. `during` are snapshots from
    the run, `ledger` the payment provider's, `deliveries` what the mail server took, `terms` how
    the sales' terms were and changed, `faults` the log of what was injected. `properties` names
    those that the run can say something about: leaving one out is a decision of the caller, while
    one that is asked for and cannot be judged is unknown, and so is then the whole. `enough` is
    what P13 asks for (`ok`, `sold_out`, `duplicate`, `info`); under faults at least one unknown
    answer too. `allows_errors` says that a server error is one more unknown answer, and the buyer
    asked again. `specification` is the shop's own, by which P21 judges.

    Raises `HistoryError`, `SnapshotError`, `FaultLogError` for files that cannot be understood,
    `OSError` for those that cannot be read, `ValueError` for a property that does not exist.
    """
    if strange := {*properties, *not_judged} - set(PROPERTIES):
        raise ValueError(f"no such property: {', '.join(sorted(strange))}")
    wanted = [each for each in PROPERTIES if each in properties and each not in not_judged]
    with Evidence(
        enough=enough, allows_errors=allows_errors, specification=specification
    ) as evidence:
        evidence.load_history([Path(path) for path in histories])
        if snapshot is not None:
            evidence.load_snapshot(Path(snapshot), FINAL)
        for number, path in enumerate(during, start=FINAL + 1):
            evidence.load_snapshot(Path(path), number)
        for found in (ledger, deliveries, terms):
            if found is not None:
                evidence.load_rows(Path(found))
        evidence.has_ledger, evidence.has_deliveries = ledger is not None, deliveries is not None
        if faults is not None:
            evidence.load_faults(Path(faults))
        evidence.derive()
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
