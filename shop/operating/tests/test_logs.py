"""Log lines as JSON."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextvars import Context
from io import StringIO
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from opentelemetry.trace import NonRecordingSpan, SpanContext

from shop import environment
from shop.operating import logs

ASKED = {"PATH_INFO": "/api/v1/orders/91/refund", "HTTP_X_REQUEST_ID": "f" * 32}


@pytest.fixture
def written() -> Iterator[StringIO]:
    """What a logger named `shop.test` writes."""
    handler = logging.StreamHandler(stream := StringIO())
    handler.setFormatter(logs.Json())
    log = logging.getLogger("shop.test")
    log.addHandler(handler)
    yield stream
    log.removeHandler(handler)


def line_of(environ: dict[str, Any] | None, written: StringIO) -> dict[str, str]:
    """Log one line while a request is served; return it."""

    def serve() -> None:
        if environ is not None:
            logs.request.set(environ)
        logging.getLogger("shop.test").warning("no answer for %s", "order 91")

    Context().run(serve)
    line: dict[str, str] = json.loads(written.getvalue().splitlines()[-1])
    return line


def test_a_line_has_the_ids_of_its_request_trace_and_order(written: StringIO) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    line = line_of({**ASKED, "HTTP_TRACEPARENT": f"00-{trace}-b7ad6b7169203331-01"}, written)
    assert line["message"] == "no answer for order 91"
    assert line["level"] == "WARNING"
    assert line["logger"] == "shop.test"
    assert (line["request"], line["trace"], line["order"]) == ("f" * 32, trace, "91")


def test_a_requests_own_span_gives_the_trace_of_its_lines(written: StringIO) -> None:
    given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    span = NonRecordingSpan(SpanContext(0xAB, 1, is_remote=False))
    line = line_of({**ASKED, "HTTP_TRACEPARENT": given, logs.SPAN: span}, written)
    assert line["trace"] == "0" * 30 + "ab"


def test_a_request_without_an_acceptable_id_gets_one_for_all_its_lines(written: StringIO) -> None:
    forged = {
        "PATH_INFO": "/",
        "HTTP_X_REQUEST_ID": 'x" \n{"forged": true}',
        "HTTP_TRACEPARENT": "x",
    }
    first, second = line_of(forged, written), line_of(forged, written)
    assert len(first["request"]) == 32
    assert first["request"] == second["request"]
    assert "trace" not in first
    assert "order" not in first


def test_a_line_outside_of_requests_has_no_ids(written: StringIO) -> None:
    assert not {"request", "trace", "order", "task"} & line_of(None, written).keys()


def test_a_task_and_an_order_that_the_caller_names_are_in_the_line(written: StringIO) -> None:
    def work() -> None:
        logs.task.set(("shop.send_mails", "1-2-3"))
        try:
            raise ValueError("bad\naddress")
        except ValueError:
            logging.getLogger("shop.test").exception("not sent", extra={"order": 91})

    Context().run(work)
    assert written.getvalue().count("\n") == 1
    line = json.loads(written.getvalue())
    assert (line["task"], line["task_id"], line["order"]) == ("shop.send_mails", "1-2-3", 91)
    assert line["error"].endswith("ValueError: bad\naddress")


def test_production_logs_json_and_the_demo_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOG_FORMAT", raising=False)
    monkeypatch.setenv("SHOP_DEMO", "0")
    assert logs.formatter() is logs.FORMATTERS["json"]
    monkeypatch.setenv("SHOP_DEMO", "1")
    assert logs.formatter() is logs.FORMATTERS["line"]
    monkeypatch.setenv("LOG_FORMAT", "json")
    assert logs.formatter() is logs.FORMATTERS["json"]
    monkeypatch.setenv("LOG_FORMAT", "xml")
    with pytest.raises(ImproperlyConfigured, match="LOG_FORMAT"):
        logs.formatter()


def test_gunicorns_own_lines_are_json_too() -> None:
    variables = {**os.environ, "SHOP_DEMO": "0", "LOG_FORMAT": "json", "SHOP_PORT": "0"}
    # An application that cannot be found ends it once it has said so.
    command = [sys.executable, "-m", "gunicorn", "-c", "gunicorn.conf.py", "nowhere:application"]
    result = subprocess.run(
        command, cwd=environment.PROJECT, env=variables, capture_output=True, text=True, timeout=60
    )
    lines = [json.loads(line) for line in result.stderr.splitlines() if line.startswith("{")]
    assert result.returncode != 0
    assert result.stdout == ""
    assert any(line["message"].startswith("Starting gunicorn") for line in lines)
    assert {line["logger"] for line in lines} == {"gunicorn.error"}
