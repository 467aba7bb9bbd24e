"""The value behind the Z commands."""

from __future__ import annotations

from bisect import bisect_left, insort


class SortedSet:
    """Members by score, then by name; small, so a sorted list beats anything cleverer."""

    __slots__ = ("order", "scores")

    def __init__(self) -> None:
        self.scores: dict[bytes, float] = {}
        self.order: list[tuple[float, bytes]] = []

    def __len__(self) -> int:
        return len(self.scores)

    def put(self, member: bytes, score: float) -> None:
        """Add the member, or move it to another score."""
        self.drop(member)
        self.scores[member] = score
        insort(self.order, (score, member))

    def drop(self, member: bytes) -> bool:
        """Take the member out; return whether it was there."""
        score = self.scores.pop(member, None)
        if score is None:
            return False
        del self.order[bisect_left(self.order, (score, member))]
        return True
