"""Metrics of other processes, written to the folder by `prometheus_client` itself."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from prometheus_client import values


@contextmanager
def writing_as(process: str, folder: Path) -> Iterator[None]:
    """Let the metrics that are made and used inside the block be those of another process."""
    with mock.patch.dict(os.environ, PROMETHEUS_MULTIPROC_DIR=str(folder)):
        numbers = values.MultiProcessValue(lambda: process)
        with mock.patch.object(values, "ValueClass", numbers):
            yield
        numbers.close_all_files()
