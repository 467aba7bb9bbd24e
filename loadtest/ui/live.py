"""What is broken while a run goes on, asked of a separate process every few seconds."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import gevent
import msgspec

from loadtest.checker import Broken
from loadtest.ui.judge import Asked
from loadtest.ui.runs import RunFolder

logger = logging.getLogger(__name__)

# Seconds between two judgements, at least. Long ones come four times their length apart, so that
# judging a large history does not become a load.
PAUSE = 2.0
SPARED = 4

# Seconds that one may take.
PATIENCE = 60.0

_FOUND = msgspec.json.Decoder(list[Broken])


class LiveJudge:
    """Judges one run until its load is over.

    Args:
        folder: of the run.
        asked: what to judge, at this moment.

    Attributes:
        broken: the properties that are broken for good.
    """

    def __init__(self, folder: RunFolder, asked: Callable[[], Asked]) -> None:
        self.broken: list[Broken] = []
        self._folder, self._asked = folder, asked

    @contextmanager
    def following(self) -> Iterator[None]:
        """Judge again and again in the meantime."""
        judging = gevent.spawn(self._again_and_again)
        try:
            yield
        finally:
            judging.kill()

    def look(self) -> None:
        """Judge once; what was broken stays so."""
        command = [sys.executable, "-m", "loadtest.ui.judge", str(self._folder.path)]
        asked = msgspec.json.encode(self._asked()).decode()
        root = Path(__file__).resolve().parents[2]
        try:
            done = subprocess.run(
                [*command, asked],
                cwd=root,
                timeout=PATIENCE,
                capture_output=True,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return
        if done.returncode == 0:
            self.broken = _FOUND.decode(done.stdout) or self.broken
        elif done.stderr:
            logger.warning("Not judged at this moment: %s", done.stderr.decode().strip())

    def _again_and_again(self) -> None:
        while True:
            began = time.monotonic()
            self.look()
            gevent.sleep(max(PAUSE, SPARED * (time.monotonic() - began)))
