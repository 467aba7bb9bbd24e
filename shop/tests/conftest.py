"""A web server that the tests of a module share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_django import DjangoDbBlocker

from shop.tests.web import web_server


@pytest.fixture(scope="module")
def port(
    tmp_path_factory: pytest.TempPathFactory,
    django_db_setup: None,
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[int]:
    """The port of a web server on the test's database."""
    log = tmp_path_factory.mktemp("web") / "log"
    with django_db_blocker.unblock(), web_server(log) as found:
        yield found
