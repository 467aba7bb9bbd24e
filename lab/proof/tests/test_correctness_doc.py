"""docs/correctness.md names every property, fault and control that there is, and no other."""

import re

import pytest

from lab import environment
from lab.proof.controls import CONTROLS
from loadtest.checker.tables import rewrite
from loadtest.faults import FAULTS

PAGE = (environment.PROJECT / "docs" / "correctness.md").read_text()


def rows(heading: str) -> list[list[str]]:
    """The cells of the table under a heading."""
    part = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_table_of_properties_is_the_one_of_their_classes():
    assert rewrite(PAGE) == PAGE


def test_every_fault_is_listed_with_what_is_expected():
    expected = [[f"`{name}`", fault.what, fault.expected] for name, fault in FAULTS.items()]
    assert rows("Faults") == expected


def test_every_control_is_listed_with_what_it_must_turn_red():
    listed = {row[0].strip("`"): row[2] for row in rows("Has the checker ever failed?")}
    assert listed == {
        control.name: " or ".join(control.reddens) or "nothing: all must hold"
        for control in CONTROLS
    }


@pytest.mark.parametrize("picture", re.findall(r"\]\((\w+\.png)\)", PAGE))
def test_every_picture_is_there(picture):
    assert (environment.PROJECT / "docs" / picture).exists()
