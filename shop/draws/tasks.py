"""The task that continues draws."""

from __future__ import annotations

from shop.background.sending import ask_for
from shop.background.tasks import SLICE
from shop.celery import app
from shop.draws import drawing


@app.task(name="shop.run_draws")  # type: ignore[untyped-decorator]
def run_draws() -> int:
    """Take the steps of draws that are due; return their number."""
    steps = drawing.advance(SLICE)
    if steps:
        ask_for(run_draws)
    return steps
