"""Webhook events of the payment provider."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now


class WebhookEvent(models.Model):
    """An event that was applied. Its row is written with its effect, so each takes effect once."""

    id = models.CharField(primary_key=True, max_length=100, help_text="the provider's own")
    type = models.CharField(max_length=60)
    received = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["-received"]

    def __str__(self) -> str:
        return f"{self.type} ({self.id})"
