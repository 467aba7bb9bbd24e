"""A page as a visitor's browser has it: its text, its figures, and its forms as rendered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

VOID = {"img", "input", "link", "meta", "br"}


@dataclass(eq=False)
class Node:
    """An element of a page."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    inside: list[Node | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return " ".join("".join(self._texts()).split())

    def _texts(self) -> Iterator[str]:
        for each in self.inside:
            if isinstance(each, str):
                yield each
            elif each.tag == "br":
                yield " "
            elif each.tag not in {"script", "style"}:
                yield from each._texts()

    def all(self, tag: str = "", **wanted: str | None) -> Iterator[Node]:
        """Yield the elements with a tag, a class (as `css`), and attributes; None for any value."""
        css = wanted.pop("css", None)
        names = {name.replace("_", "-"): value for name, value in wanted.items()}
        for each in self.inside:
            if isinstance(each, Node):
                has = each.attributes
                fits = not tag or each.tag == tag
                fits = fits and (css is None or css in has.get("class", "").split())
                if fits and all(n in has and v in (None, has[n]) for n, v in names.items()):
                    yield each
                yield from each.all(tag, css=css, **wanted)

    def one(self, tag: str = "", **wanted: str | None) -> Node:
        found = list(self.all(tag, **wanted))
        assert len(found) == 1, f"{len(found)} × {tag} {wanted}"
        return found[0]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open = [Node("page")]

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        node = Node(tag, {name: value or "" for name, value in attrs})
        self.open[-1].inside.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_endtag(self, tag: str) -> None:
        while len(self.open) > 1 and self.open.pop().tag != tag:
            pass

    def handle_data(self, data: str) -> None:
        self.open[-1].inside.append(data)


def read(html: str) -> Node:
    """Return a page's elements."""
    reader = _Reader()
    reader.feed(html)
    return reader.open[0]


@dataclass(frozen=True)
class Form:
    """A form as a browser would send it."""

    action: str
    values: dict[str, str]
    limits: dict[str, tuple[str, str]]
    button: str
    disabled: bool


def forms(page: Node, where: str) -> list[Form]:
    """Return the forms of a page at an address, without those in its header."""
    [main] = [*page.all("main"), *page.all("div", id="content")][:1] or [page]
    return [form for node in main.all("form", method="post") for form in _forms(node, where, main)]


def _forms(node: Node, where: str, main: Node) -> Iterator[Form]:
    """Yield a form, and once more for each button elsewhere or that sends it to another address."""
    values, limits = {}, {}
    outside = {"form": node.attributes.get("id", "-")}
    for box in [*node.all("input"), *main.all("input", **outside)]:
        name, kind = box.attributes.get("name", ""), box.attributes.get("type", "text")
        if name and kind != "submit" and (kind != "checkbox" or "checked" in box.attributes):
            values[name] = box.attributes.get("value", "on" if kind == "checkbox" else "")
            limits[name] = (box.attributes.get("min", ""), box.attributes.get("max", ""))
    for box in node.all("select"):
        chosen = [o.attributes["value"] for o in box.all("option") if "selected" in o.attributes]
        values[box.attributes["name"]] = chosen[0] if chosen else ""
    for area in node.all("textarea"):
        values[area.attributes["name"]] = area.text
    buttons = [button for button in node.all("button") if "formaction" not in button.attributes]
    action = node.attributes.get("action") or where
    text = buttons[0].text if buttons else ""
    for button in main.all("button", **outside):
        has = button.attributes
        sent = values | {has["name"]: has.get("value", "")}
        yield Form(has.get("formaction", action), sent, limits, button.text, False)
    yield Form(action, values, limits, text, any("disabled" in b.attributes for b in buttons))
    for button in node.all("button"):
        if elsewhere := button.attributes.get("formaction"):
            yield Form(elsewhere, values, limits, button.text, "disabled" in button.attributes)


def rows(page: Node) -> list[dict[str, str]]:
    """Return the rows of a list in the admin, by column."""
    found = []
    for row in page.one("table", id="result_list").one("tbody").all("tr"):
        cells = [*row.all("th"), *row.all("td")]
        found.append(
            {
                name.removeprefix("field-"): cell.text or _sign(cell)
                for cell in cells
                for name in cell.attributes.get("class", "").split()
                if name.startswith("field-")
            }
        )
    return found


def _sign(cell: Node) -> str:
    """Return what the sign in a cell without a text means: True or False."""
    return "".join(image.attributes.get("alt", "") for image in cell.all("img"))
