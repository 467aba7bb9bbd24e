"""Alerts: one open alert per problem, until an audit no longer finds it."""

from __future__ import annotations

import re

from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from shop.audit.models import Alert
from shop.audit.report import Report


def raise_alerts(report: Report) -> int:
    """Open, update and close alerts to match the report.

    Closes nothing while a part of the report could not be checked.

    Returns:
        The number of open alerts.
    """
    said = {_key(text): text for text in (*report.problems, *report.overdue)}
    for key, text in said.items():
        _open(key, text)
    if not report.unchecked:
        Alert.objects.filter(closed=None).exclude(key__in=said).update(closed=Now())
    return Alert.objects.filter(closed=None).count()


def _open(key: str, text: str) -> None:
    if Alert.objects.filter(key=key, closed=None).update(text=text, seen=Now()):
        return
    try:
        with transaction.atomic():
            Alert.objects.create(key=key, text=text)
    except IntegrityError:
        Alert.objects.filter(key=key, closed=None).update(text=text, seen=Now())


def _key(text: str) -> str:
    """Return the problem's text without changing figures, but with its first number, an id."""
    about, number, rest = (*re.split(r"(\d+)", text, maxsplit=1), "", "")[:3]
    if not about:  # a count of overdue work
        number = "#"
    return (about + number + re.sub(r"\d+", "#", rest))[:300]
