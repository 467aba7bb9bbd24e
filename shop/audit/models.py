"""Alerts of the audit."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class Alert(models.Model):
    """A problem, open until an audit no longer finds it."""

    key = models.CharField(max_length=300, help_text="the problem without its figures")
    text = models.TextField()
    opened = models.DateTimeField(db_default=Now())
    seen = models.DateTimeField(db_default=Now(), help_text="by the last audit that found it")
    closed = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-opened",)
        constraints = [
            models.UniqueConstraint(
                fields=["key"], condition=Q(closed__isnull=True), name="shop_alert_one_open"
            ),
        ]

    def __str__(self) -> str:
        return self.text
