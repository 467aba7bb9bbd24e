"""The README in both languages: the same commands, figures and links."""

from __future__ import annotations

import re

import pytest

from lab import environment

ENGLISH = (environment.PROJECT / "README.md").read_text(encoding="utf-8")
CHINESE = (environment.PROJECT / "README.zh.md").read_text(encoding="utf-8")

# The settings' table is in English only.
ENGLISH_PROSE = re.sub(r"(?m)^\| `[A-Z_]+` \|.*$", "", ENGLISH)
EACH_OTHER = re.compile(r"README(?:\.zh)?\.md")


def commands(text: str) -> list[str]:
    return re.findall(r"(?ms)^```.*?^```$", text)


def figures(text: str) -> set[str]:
    return set(re.findall(r"\d[\d,.:]*\d|\d", EACH_OTHER.sub("", text)))


def links(text: str) -> set[str]:
    found = re.findall(r"\]\(([^)#\s]+)\)|(https?://[\w.:/-]+)", EACH_OTHER.sub("", text))
    return {one or other for one, other in found}


def code(text: str) -> set[str]:
    outside = re.sub(r"(?ms)^```.*?^```$", "", text)
    return set(re.findall(r"`([^`\n]+)`", outside))


@pytest.mark.parametrize("part", [commands, figures, links, code])
def test_both_readmes_say_the_same(part):
    assert part(ENGLISH_PROSE)
    assert part(CHINESE) == part(ENGLISH_PROSE)


def test_another_figure_or_command_would_be_noticed():
    assert figures(CHINESE.replace("2,000", "2,001")) != figures(ENGLISH_PROSE)
    assert commands(CHINESE.replace('--stock 100"', '--stock 10"')) != commands(ENGLISH)
