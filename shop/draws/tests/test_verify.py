"""The verifier: the document's test vectors, planted contradictions, and the fairness of places."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from hashlib import sha256
from heapq import nsmallest
from pathlib import Path
from typing import Any

import pytest

from shop.draws import verify
from shop.environment import PROJECT

DOCUMENT = (PROJECT / "docs/draws.md").read_text(encoding="utf-8")
VECTORS = re.findall(r"```json\n(.*?)\n```\n\n.*?\n.*?\n(.*?)\n\n", DOCUMENT, re.DOTALL)


@pytest.mark.parametrize(("file", "table"), VECTORS, ids=["plain", "public value"])
def test_verifier_agrees_with_the_document(file: str, table: str) -> None:
    checked = verify.Checked(iter(file.splitlines()))

    key = verify.key_of(
        checked.seed,
        bytes.fromhex(checked.header["last_hash"]),
        checked.header["public_value"] or "",
    )
    rows = [
        f"| {place} | {number} | `{verify.order_by(key, number).hex()}` |"
        for place, number in enumerate(checked.order(), start=1)
    ]
    assert rows == table.splitlines()


def test_document_has_two_vectors() -> None:
    assert len(VECTORS) == 2
    receipt = {"sale": 7, "buyer": 101, "number": 1, "secret": "01" * 32}
    lines = VECTORS[0][0].splitlines()
    verify.Checked(iter(lines)).check_receipt({**receipt, "hash": json.loads(lines[1])["hash"]})


def change(number: int, **members: Any) -> Callable[[list[dict[str, Any]]], None]:
    return lambda lines: lines[number].update(members)


PLANTED: dict[str, Callable[[list[dict[str, Any]]], object]] = {
    "another seed": change(0, seed="00" * 32),
    "another commitment": change(0, commitment="00" * 32),
    "another source": change(0, source="another lottery"),
    "another last hash": change(0, last_hash="00" * 32),
    "another number of lines": change(0, lines=4),
    "another entry": change(3, entry="00" * 32),
    "another hash": change(3, hash="00" * 32),
    "another withdrawal": change(4, withdraws=3),
    "a withdrawal of nobody": change(4, withdraws=4),
    "a line is missing": lambda lines: lines.pop(2),
    "the last line is missing": lambda lines: lines.pop(),
    "a line is doubled": lambda lines: lines.insert(2, lines[2]),
    "two lines are exchanged": lambda lines: lines.insert(1, lines.pop(2)),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_verifier_finds_a_contradiction(planted: str, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in VECTORS[1][0].splitlines()]
    path = tmp_path / "draw.jsonl"

    def outcome() -> int:
        path.write_text("\n".join(map(json.dumps, lines)))
        return verify.main([str(path)])

    assert outcome() == 0
    PLANTED[planted](lines)
    assert outcome() == 1


@pytest.mark.parametrize("member", ["seed", "last_hash", "public_value"])
def test_verifier_says_that_a_draw_is_not_over(member: str, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in VECTORS[1][0].splitlines()]
    lines[0][member] = None
    path = tmp_path / "draw.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))

    assert verify.main([str(path)]) == 2


@pytest.mark.parametrize(
    "different",
    [{"hash": "00" * 32}, {"buyer": 204}, {"sale": 9}, {"secret": "04" * 32}, {"number": 99}],
)
def test_verifier_refuses_a_receipt_that_contradicts(different: dict[str, Any]) -> None:
    lines = VECTORS[1][0].splitlines()
    checked = verify.Checked(iter(lines))
    receipt = {"sale": 8, "buyer": 203, "number": 3, "secret": "03" * 32}
    receipt["hash"] = json.loads(lines[3])["hash"]
    checked.check_receipt(receipt)

    with pytest.raises(verify.Contradiction):
        checked.check_receipt({**receipt, **different})


def test_verifier_needs_no_other_file() -> None:
    """Buyers get this one file, with Python's standard library only."""
    source = Path(verify.__file__).read_text(encoding="utf-8")

    assert not re.search(r"^(?:from|import) (?:shop|django|inventory)", source, re.MULTILINE)


DRAWS, ENTRIES, WINNERS, CLASSES = 1000, 10_000, 100, 100

CRITICAL = 134.6
"""Of chi-square with 99 degrees of freedom, at 1 %."""


@pytest.mark.long
@pytest.mark.timeout(900)  # ten million HMACs: half a minute on a machine that does nothing else
def test_places_have_no_bias() -> None:
    """Winners are counted by their numbers, and the place of the last entry by hundreds."""
    won, last = [0] * CLASSES, [0] * CLASSES
    for each in range(DRAWS):
        seed = sha256(b"draw %d" % each).digest()
        key = verify.key_of(seed, sha256(seed).digest(), "")
        order = [verify.order_by(key, number) for number in range(1, ENTRIES + 1)]
        for _, position in nsmallest(WINNERS, zip(order, range(ENTRIES), strict=True)):
            won[position * CLASSES // ENTRIES] += 1
        place = sum(one < order[-1] for one in order)
        last[place * CLASSES // ENTRIES] += 1

    figures = chi_square(won), chi_square(last)
    print(f"chi-square: {figures[0]:.1f} and {figures[1]:.1f}")
    assert max(figures) < CRITICAL


def chi_square(counts: list[int]) -> float:
    expected = sum(counts) / len(counts)
    return sum((count - expected) ** 2 / expected for count in counts)
