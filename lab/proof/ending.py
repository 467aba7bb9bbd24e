"""How the threads of a proof end: in order after a run, otherwise if the proof is given up."""

from __future__ import annotations

from collections.abc import Callable


def ending(
    stop: Callable[[], None], abandon: Callable[[], None] = lambda: None
) -> Callable[..., None]:
    """Return an exit callback for `ExitStack.push`.

    Args:
        stop: waits until the thread has finished its work on the shop.
        abandon: called instead when an exception ends the proof.
    """

    def end(kind: type[BaseException] | None, *_: object) -> None:
        (stop if kind is None else abandon)()

    return end
