"""The value of the Z commands."""

from __future__ import annotations

from bisect import bisect_left, insort


class SortedSet:
    """Members by score, then by name; small, so a sorted list is the fastest structure."""

    __slots__ = ("order", "scores")

    def __init__(self) -> None:
        self.scores: dict[bytes, float] = {}
        self.order: list[tuple[float, bytes]] = []

    def __len__(self) -> int:
        return len(self.scores)

    def put(self, member: bytes, score: float) -> None:
        """Add the member or change its score."""
        self.drop(member)
        self.scores[member] = score
        insort(self.order, (score, member))

    def drop(self, member: bytes) -> bool:
        """Remove the member; return whether it existed."""
        score = self.scores.pop(member, None)
        if score is None:
            return False
        del self.order[bisect_left(self.order, (score, member))]
        return True
