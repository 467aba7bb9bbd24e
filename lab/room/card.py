"""The result card of a rush: the first section of its verdict's page, in the shop's languages.

Buyers are counted from the answers that they got, which are in the history; units sold are counted
from the database. So the card shows both, and where they differ something is wrong. When the buyers
have finished, the card says what can be counted at once; when the rush has been judged, it is made
from the verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.utils import translation

from inventory.audit import audit
from lab.room.texts import TEXTS
from loadtest.checker import FAIL, buyers_by_end
from loadtest.checker.report import Words, result
from loadtest.files import RunFolder
from loadtest.run_plan import RunPlan
from shop.catalogue.models import Sale

JUDGING = "judging"
"""In place of a verdict, while there is none."""


def counted_at_once(
    files: RunFolder, plan: RunPlan, look: str, *, handovers: int
) -> dict[str, Any]:
    """Return what is known of a rush before it is judged, as a document like a verdict.

    Args:
        files: of the rush.
        plan: of the rush.
        look: a command that shows the books of the sale.
        handovers: how often an item's lock was granted meanwhile.

    Raises:
        Error: the database does not answer.
        HistoryError: the history cannot be read.
    """
    ends = buyers_by_end(files)
    item = Sale.objects.select_related("item").get(pk=plan.sale).item
    oversold = max(0, item.reserved - item.total)
    return {
        "verdict": FAIL if oversold or audit([item.pk]).problems else JUDGING,
        "reason": "",
        "result": {
            "buyers": sum(ends.values()),
            **ends,
            "units": item.total,
            "taken": item.reserved,
            "oversold": oversold,
            "handovers": handovers,
        },
        "check": {"look": look, "again": ""},
    }


def card_of(
    files: RunFolder, plan: RunPlan, document: Mapping[str, Any], word: str
) -> dict[str, Any]:
    """Return the card as the room's pages show it.

    Args:
        files: of the rush.
        plan: of the rush.
        document: the verdict, or what takes its place until then.
        word: pass, fail, unknown or `JUDGING`.
    """
    audit_too = f"{document['check']['look']}\npython3 manage.py audit --sale {plan.sale}"
    document = {**document, "check": {**document["check"], "look": audit_too}}
    html = {}
    for language, _ in settings.LANGUAGES:
        with translation.override(language):
            html[language] = _section(document, plan, word)
    return {"verdict": word, "run": files.number, "html": html}


def _section(document: Mapping[str, Any], plan: RunPlan, word: str) -> str:
    texts = {kind: {name: str(text) for name, text in TEXTS[kind].items()} for kind in SECTION}
    check = texts["check"]
    words = Words(texts["card"], texts["sentences"], check["button"], check["look"], check["again"])
    units = document["result"].get("units", plan.stock)
    size = {"buyers": plan.buyers, "units": units, "strategy": plan.strategy}
    heading = {"title": texts["check"]["title"] % size, "headline": [texts["verdicts"][word]]}
    return str(result({**document, **heading}, words, level=2))


SECTION = ("card", "sentences", "check", "verdicts")
"""The texts of the section."""
