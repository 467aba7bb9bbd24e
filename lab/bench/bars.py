"""A benchmark's figures as SVG: bars in panels below each other.

Our own, because a few bars in one file do not need a library (`docs/dependencies.md`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

# The measures of the panels, in pixels.
PAGE, BAR, GAP, LABEL, MARGIN = 860, 18, 8, 190, 28

STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .title { font-size: 19px; font-weight: 600 } .sub { fill: #57606a }
  .head { font-weight: 600 } .bar { fill: #b6bec9 } .ours { fill: #0969da }
  .limit { fill: #d0d7de } .bad { fill: #cf222e } .page { fill: #ffffff }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .sub { fill: #8d96a0 } .bar { fill: #57606a } .ours { fill: #4493f8 }
    .limit { fill: #373e47 } .bad { fill: #f85149 } .page { fill: #0d1117 }
  }
"""


@dataclass(frozen=True)
class Panel:
    """One figure for all contenders.

    Attributes:
        title: the question.
        hint: unit, and which way is better.
        values: name and figure of each, in the order of the bars.
        show: the figure as text.
    """

    title: str
    hint: str
    values: list[tuple[str, float]]
    show: Callable[[float], str]


def draw(title: str, about: str, panels: Sequence[Panel], kinds: Mapping[str, str]) -> str:
    """Draw panels below each other; reads in light and in dark.

    Args:
        title: of the whole.
        about: a line below it.
        panels: what is shown.
        kinds: "ours", "limit" or "bad" for names that are to stand out.

    Returns:
        The SVG document.
    """
    parts = [
        f'<text class="title" x="{MARGIN}" y="40">{escape(title)}</text>',
        f'<text class="sub" x="{MARGIN}" y="62">{escape(about)}</text>',
    ]
    top = 96
    for panel in panels:
        drawn, height = _panel(panel, top, kinds)
        parts += drawn
        top += height
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {PAGE} {top}" width="{PAGE}" '
        f'height="{top}" role="img" aria-label="{escape(title)}">'
    )
    page = f'<rect class="page" width="{PAGE}" height="{top}" rx="8"/>'
    return "\n".join([head, f"<style>{STYLE}</style>", page, *parts, "</svg>", ""])


def _panel(panel: Panel, top: int, kinds: Mapping[str, str]) -> tuple[list[str], int]:
    hint = f'<tspan class="sub" dx="10" font-weight="400">{escape(panel.hint)}</tspan>'
    title = f"{escape(panel.title)}{hint}"
    parts = [f'<text class="head" x="{MARGIN}" y="{top}">{title}</text>']
    longest = max(value for _, value in panel.values) or 1.0
    room = PAGE - LABEL - 2 * MARGIN - 80  # the figure is to the right of the bar
    for place, (name, value) in enumerate(panel.values):
        y = top + 14 + place * (BAR + GAP)
        kind = kinds.get(name, "bar")
        x, middle = MARGIN + LABEL, y + BAR - 5
        width = max(1.5, room * value / longest)
        parts += [
            f'<text x="{x - 10}" y="{middle}" text-anchor="end">{escape(name)}</text>',
            f'<rect class="{kind}" x="{x}" y="{y}" width="{width:.1f}" height="{BAR}" rx="3"/>',
            f'<text x="{x + width + 8:.1f}" y="{middle}">{escape(panel.show(value))}</text>',
        ]
    return parts, 14 + len(panel.values) * (BAR + GAP) + 36
