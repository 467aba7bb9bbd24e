"""The task log: the last run of each Celery task."""

from __future__ import annotations

from django.db import models


class Run(models.Model):
    """The last run of a Celery task: one row per task (see ``shop/background/task_log.py``)."""

    task = models.CharField(max_length=100, primary_key=True)
    runs = models.PositiveBigIntegerField(default=0)
    failures = models.PositiveBigIntegerField(default=0)
    last = models.DateTimeField(help_text="when it last ended")
    seconds = models.FloatField(help_text="how long that took")
    result = models.CharField(max_length=200, blank=True)
    last_failure = models.DateTimeField(null=True, blank=True)
    error = models.TextField(blank=True)

    class Meta:
        verbose_name = "task"

    def __str__(self) -> str:
        return self.task
