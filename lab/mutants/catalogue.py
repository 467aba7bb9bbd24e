"""The catalogue of mutants: bugs of the shop, each as an edit of its source.

A file of the catalogue is an area. Its groups name a source file and the tests that are its own;
see ``docs/mutants.md`` for every key.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec import Struct, convert

CATALOGUE = Path(__file__).with_name("catalogue")


class NotApplicable(Exception):
    """An edit's old text is not in its file exactly once: the source has changed."""


class Edit(Struct, frozen=True, forbid_unknown_fields=True):
    """A replacement of text that its file contains exactly once."""

    file: str
    old: str
    new: str

    def applied(self, text: str) -> str:
        """Return the file's text after the edit.

        Raises:
            NotApplicable: the old text is not there, or not only once.
        """
        if (count := text.count(self.old)) != 1:
            raise NotApplicable(f"{self.file} has this {count} times, not once: {self.old!r}")
        return text.replace(self.old, self.new)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A planted bug.

    Attributes:
        name: unique in the catalogue.
        area: the name of its file in the catalogue.
        bug: what goes wrong, in the shopkeeper's words.
        edits: what makes it of the source; the first one gives its file.
        tests: arguments for pytest: the tests of the mutated subject.
        profile: the proof that should find it, see :mod:`lab.mutants.profiles`.
        hidden: why no proof can see it from outside; empty if one can.
        accepted: why it may stay unfound; empty if it may not.
    """

    name: str
    area: str
    bug: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]
    profile: str
    hidden: str
    accepted: str

    @property
    def file(self) -> str:
        """The source file that has the bug."""
        return self.edits[0].file

    @property
    def digest(self) -> str:
        """A hash of the edits, to tell whether a result is about this text."""
        told = json.dumps([(edit.file, edit.old, edit.new) for edit in self.edits])
        return hashlib.sha256(told.encode()).hexdigest()[:12]

    def texts(self, root: Path) -> dict[str, str]:
        """Return the mutated files below `root`: their new text by their path.

        Raises:
            NotApplicable: the source has changed.
        """
        texts: dict[str, str] = {}
        for edit in self.edits:
            before = texts.get(edit.file) or (root / edit.file).read_text(encoding="utf-8")
            texts[edit.file] = edit.applied(before)
        return texts


class _Row(Struct, forbid_unknown_fields=True):
    name: str
    bug: str
    old: str
    new: str
    also: list[Edit] = []
    tests: list[str] = []
    profile: str = ""
    hidden: str = ""
    accepted: str = ""


class _Group(Struct, forbid_unknown_fields=True):
    file: str
    tests: list[str]
    mutant: list[_Row]
    profile: str = "all"


class _Area(Struct, forbid_unknown_fields=True):
    group: list[_Group]


def load(folder: Path = CATALOGUE) -> tuple[Mutant, ...]:
    """Read the catalogue, area by area.

    Raises:
        msgspec.ValidationError: a file of it has a key that is unknown, missing or of another type.
    """
    return tuple(
        Mutant(
            name=row.name,
            area=path.stem,
            bug=row.bug,
            edits=(Edit(group.file, row.old, row.new), *row.also),
            tests=tuple(row.tests or group.tests),
            profile=row.profile or group.profile,
            hidden=row.hidden,
            accepted=row.accepted,
        )
        for path in sorted(folder.glob("*.toml"))
        for group in convert(tomllib.loads(path.read_text(encoding="utf-8")), _Area).group
        for row in group.mutant
    )


def choose(
    mutants: Sequence[Mutant], *, areas: Collection[str] = (), names: Collection[str] = ()
) -> list[Mutant]:
    """Return those of some areas and names; no areas or no names means all.

    Raises:
        ValueError: there is no such area or mutant.
    """
    for wanted, known in (
        (areas, {each.area for each in mutants}),
        (names, {each.name for each in mutants}),
    ):
        if unknown := set(wanted) - known:
            raise ValueError(f"not in the catalogue: {', '.join(sorted(unknown))}")
    return [
        each
        for each in mutants
        if (not areas or each.area in areas) and (not names or each.name in names)
    ]


def sample(mutants: Sequence[Mutant], size: int, seed: int) -> list[Mutant]:
    """Return a window of a fixed shuffle: consecutive seeds come by every mutant in turn."""
    shuffled = sorted(mutants, key=lambda each: hashlib.sha256(each.name.encode()).digest())
    size = min(size, len(shuffled))
    return [shuffled[(seed * size + place) % len(shuffled)] for place in range(size)]
