"""The catalogue fits the source as it is now."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from lab import environment
from lab.mutants.catalogue import Edit, Mutant, NotApplicable, choose, load, sample
from lab.mutants.profiles import PROFILES
from lab.mutants.results import Results

MUTANTS = load()


def named(name: str) -> Mutant:
    return Mutant(name, "area", "", (Edit("file", "a", "b"),), (), "all", "", "")


def code(text: str) -> str:
    """The program without its comments and layout."""
    return ast.dump(ast.parse(text))


@pytest.mark.parametrize("area", sorted({each.area for each in MUTANTS}))
def test_every_mutant_applies_once_compiles_and_is_another_program(area):
    for mutant in choose(MUTANTS, areas=[area]):
        for name, text in mutant.texts(environment.PROJECT).items():
            before = (environment.PROJECT / name).read_text()
            if name.endswith(".py"):
                assert code(text) != code(before), mutant.name
            else:
                assert text != before, mutant.name


def test_names_are_unique_and_tests_and_profiles_are_there():
    names = Counter(each.name for each in MUTANTS)
    assert names.most_common(1)[0][1] == 1, names.most_common(1)
    for mutant in MUTANTS:
        assert mutant.profile in PROFILES, mutant.name
        assert mutant.tests, mutant.name
        for test in mutant.tests:
            file, _, function = test.partition("::")
            assert function in (environment.PROJECT / file).read_text(), mutant.name


def test_the_file_of_the_test_that_found_a_mutant_is_among_its_own():
    results = Results(environment.PROJECT / "docs" / "mutants.jsonl")
    for mutant in MUTANTS:
        result = results.of(mutant, "tests")
        if result is not None and result.outcome == "found":
            own = {test.partition("::")[0] for test in mutant.tests}
            assert result.by.partition("::")[0] in own, mutant.name


def test_a_mutant_whose_source_has_changed_is_told(tmp_path: Path):
    (tmp_path / "file").write_text("a a")
    with pytest.raises(NotApplicable, match="2 times, not once"):
        named("twice").texts(tmp_path)


def test_two_edits_of_one_file_are_both_made(tmp_path: Path):
    (tmp_path / "file").write_text("a c")
    both = Mutant(
        "both", "area", "", (Edit("file", "a", "b"), Edit("file", "c", "d")), (), "all", "", ""
    )
    assert both.texts(tmp_path) == {"file": "b d"}


def test_consecutive_seeds_come_by_every_mutant():
    mutants = [named(f"mutant {number}") for number in range(23)]
    drawn = Counter(each.name for seed in range(100, 105) for each in sample(mutants, 5, seed))
    assert set(drawn) == {each.name for each in mutants}
    assert sample(mutants, 5, 3) == sample(mutants, 5, 3)
    assert len(sample(mutants, 99, 1)) == 23


def test_an_area_or_name_that_is_not_there_is_told():
    with pytest.raises(ValueError, match="no-such-thing"):
        choose(MUTANTS, names=["no-such-thing"])
    with pytest.raises(ValueError, match="no-such-thing"):
        choose(MUTANTS, areas=["no-such-thing"])
