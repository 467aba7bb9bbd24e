"""Alerts of the audit."""

from __future__ import annotations

import pytest

from shop.audit.alerts import raise_alerts
from shop.audit.models import Alert
from shop.audit.report import Report

pytestmark = pytest.mark.django_db(transaction=True)


def test_each_order_has_an_alert_of_its_own_whose_figures_may_change():
    said = ["order 7 is paid, but 3 units are held", "order 8 is paid, but 3 units are held"]
    assert raise_alerts(Report(problems=said, overdue=["2 mails wait"])) == 3
    opened = set(Alert.objects.values_list("pk", flat=True))
    later = ["order 7 is paid, but 2 units are held", said[1]]
    assert raise_alerts(Report(problems=later, overdue=["5 mails wait"])) == 3
    assert set(Alert.objects.values_list("pk", flat=True)) == opened
    texts = Alert.objects.values_list("text", flat=True)
    assert set(texts) == {*later, "5 mails wait"}
