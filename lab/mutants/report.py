"""``docs/mutants.md``: the score, and what found each mutant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from lab.mutants.catalogue import Mutant
from lab.mutants.profiles import PROFILES, Profile
from lab.mutants.results import Result, Results

NOTES = Path(__file__).with_name("notes.md")


def write(path: Path, mutants: Sequence[Mutant], results: Results) -> None:
    """Write the report about a catalogue."""
    profiles = "\n".join(
        f"| `{name}` | {profile.shows} | `{_told(profile)}` |" for name, profile in PROFILES.items()
    )
    notes = NOTES.read_text(encoding="utf-8").replace("{profiles}", profiles)
    areas = groupby(mutants, key=lambda each: each.area)
    parts = [notes, *_score(mutants, results), *(_area(name, of, results) for name, of in areas)]
    path.write_text("\n".join(parts), encoding="utf-8")


def _told(profile: Profile) -> str:
    variables = [f"{name}={value}" for name, value in profile.environment.items()]
    return " ".join((*variables, *profile.arguments))


def found_by_tests(mutant: Mutant, results: Results) -> Result | None:
    """The tests' result: that of the whole package's, if the subject's own have missed the bug."""
    own = results.of(mutant, "tests")
    if own is not None and own.outcome == "found":
        return own
    return results.of(mutant, "wide") or own


def missed(mutants: Iterable[Mutant], results: Results) -> list[Mutant]:
    """Those that the tests should find and did not."""
    tried = ((each, found_by_tests(each, results)) for each in mutants if not each.accepted)
    return [each for each, result in tried if result is not None and result.outcome != "found"]


def _score(mutants: Sequence[Mutant], results: Results) -> Iterator[str]:
    by_tests = [found_by_tests(each, results) for each in mutants]
    visible = [each for each in mutants if not each.hidden]
    by_proof = [results.of(each, "proof") for each in visible]
    yield "## The score\n"
    yield "| | mutants | tried | found | share |\n|---|--:|--:|--:|--:|"
    yield _share("by the tests, of all", by_tests)
    yield _share("by the proof, of those visible from outside", by_proof)
    neither = [each.name for each in mutants if _tried_in_vain(each, results)]
    told = ", ".join(f"`{name}`" for name in neither) or "none"
    yield f"\nFound by nothing that was tried: {told}.\n"


def _share(what: str, found: Sequence[Result | None]) -> str:
    tried = [each for each in found if each is not None]
    number = sum(each.outcome == "found" for each in tried)
    share = f"{1000 * number // len(tried) / 10:g} %" if tried else "-"
    return f"| {what} | {len(found)} | {len(tried)} | {number} | {share} |"


def _tried_in_vain(mutant: Mutant, results: Results) -> bool:
    tried = [
        each for each in (found_by_tests(mutant, results), results.of(mutant, "proof")) if each
    ]
    return bool(tried) and all(each.outcome != "found" for each in tried)


def _area(name: str, mutants: Iterable[Mutant], results: Results) -> str:
    rows = [_row(each, results) for each in mutants]
    head = "| mutant | bug | tests | proof | why not |\n|---|---|---|---|---|"
    return f"## {name.replace('_', ' ').capitalize()}\n\n{head}\n" + "\n".join(rows) + "\n"


def _row(mutant: Mutant, results: Results) -> str:
    tests, proof = found_by_tests(mutant, results), results.of(mutant, "proof")
    by = _name(tests.by) if tests is not None and tests.outcome == "found" else _cell(tests)
    seen = proof.by if proof is not None and proof.outcome == "found" else _cell(proof)
    if mutant.hidden:
        seen = "hidden"
    why = "; ".join(
        filter(None, (mutant.accepted and f"accepted: {mutant.accepted}", mutant.hidden))
    )
    return f"| `{mutant.name}` | {mutant.bug} | {by} | {seen} | {why} |"


def _name(test: str) -> str:
    """A test without its folder and parameters."""
    file, _, name = test.partition("[")[0].rpartition("/")[2].partition("::")
    return f"`{name or file}`"


def _cell(result: Result | None) -> str:
    if result is None:
        return "-"
    return f"**{result.outcome}**" + (f": {result.by}" if result.by else "")
