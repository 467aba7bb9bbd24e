"""gunicorn's own gevent worker, to be compared with the shop's (`serving/worker.py`)."""

from __future__ import annotations

from gevent import monkey
from gunicorn.workers.ggevent import GeventWorker


class PlainWorker(GeventWorker):
    """A worker that patches the standard library in the master, which loads the application."""

    @classmethod
    def setup(cls) -> None:
        """Patch it: gunicorn calls this before it loads anything."""
        monkey.patch_all(os=False, signal=False)
