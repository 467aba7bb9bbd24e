"""The learners' progress: which locks they have broken, and which of their own locks hold."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models

OWN_LOCK = "own"
"""The second half of `what` for an own lock that nothing breaks; the name of no scenario."""


class Progress(models.Model):
    """Something that a learner has done: broken a lock, or written one that holds.

    Attributes:
        what: a scenario, as "setnx-expire/crash", or an own lock, as "setnx-expire/own".
        moves: the fewest with which it was broken; 0 for an own lock.
        first: when it was done first.
    """

    learner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="course_progress"
    )
    what = models.CharField(max_length=100)
    moves = models.PositiveIntegerField(default=0)
    first = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name_plural = "progress"
        constraints = (
            models.UniqueConstraint(fields=("learner", "what"), name="course_progress_once"),
        )

    def __str__(self) -> str:
        return f"{self.learner_id}: {self.what}"

    @classmethod
    def note(cls, learner: Any, what: str, moves: int = 0) -> None:
        """Note that a learner has done something; nothing for a visitor who is not signed in."""
        if not learner.is_authenticated:
            return
        done, new = cls.objects.get_or_create(learner=learner, what=what, defaults={"moves": moves})
        if not new and moves < done.moves:
            cls.objects.filter(pk=done.pk, moves__gt=moves).update(moves=moves)

    @classmethod
    def of(cls, learner: Any) -> dict[str, int]:
        """Return what a learner has done, with the moves that it took."""
        if not learner.is_authenticated:
            return {}
        return dict(cls.objects.filter(learner=learner).values_list("what", "moves"))

    @classmethod
    def by_learner(cls) -> dict[str, dict[str, int]]:
        """Return the same of all learners, by their name."""
        found: dict[str, dict[str, int]] = {}
        rows = cls.objects.order_by("learner__username", "first")
        for name, what, moves in rows.values_list("learner__username", "what", "moves"):
            found.setdefault(name, {})[what] = moves
        return found
