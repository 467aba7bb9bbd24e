"""Log lines as JSON; the spans of a batch and its mails, and nothing while tracing is off."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from contextvars import Context
from functools import partial
from io import StringIO
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.handlers.wsgi import WSGIHandler
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased, Sampler, TraceIdRatioBased
from opentelemetry.trace import NonRecordingSpan, SpanContext

from inventory.models import OutboxMessage
from inventory.redis import ITEM_LOCK
from inventory.tests.helpers import counted, in_thread
from locking.redis_lock import RedisLock
from shop.api.handler import ApiHandler
from shop.background import tasks
from shop.catalogue.models import Sale
from shop.celery import app
from shop.conftest import Buyer
from shop.operating import logs, telemetry
from shop.orders.models import Order
from shop.redis import client
from shop.tests.processes import run, run_python, wait_for
from shop.tests.test_handler import call
from shop.tests.test_handler import purchase as buy_one

pytestmark = pytest.mark.django_db(transaction=True)


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


def test_log_line_has_the_ids_of_its_request_trace_and_order(written: StringIO) -> None:
    assert not {"request", "trace", "order", "task"} & line_of(None, written).keys()
    trace = "0af7651916cd43dd8448eb211c80319c"
    line = line_of({**ASKED, "HTTP_TRACEPARENT": f"00-{trace}-b7ad6b7169203331-01"}, written)
    assert line["message"] == "no answer for order 91"
    assert line["level"] == "WARNING"
    assert line["logger"] == "shop.test"
    assert (line["request"], line["trace"], line["order"]) == ("f" * 32, trace, "91")
    assert line_of({"PATH_INFO": "/api/v1/orders/92"}, written)["order"] == "92"


def test_log_line_has_the_trace_of_its_requests_span(written: StringIO) -> None:
    given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    span = NonRecordingSpan(SpanContext(0xAB, 1, is_remote=False))
    line = line_of({**ASKED, "HTTP_TRACEPARENT": given, logs.SPAN: span}, written)
    assert line["trace"] == "0" * 30 + "ab"


def test_request_without_a_valid_id_gets_one(written: StringIO) -> None:
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


def test_log_line_names_the_task_and_the_callers_order(written: StringIO) -> None:
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
    # A folder that is not there ends it once it has said that it starts.
    words = ("-m", "gunicorn", "-c", "gunicorn.conf.py", "--pid", "/nowhere/pid")
    result = run(sys.executable, *words, "wsgiref.simple_server:demo_app", env=variables)
    lines = [json.loads(line) for line in result.stderr.splitlines() if line.startswith("{")]
    assert result.returncode != 0
    assert result.stdout == ""
    assert any(line["message"].startswith("Starting gunicorn") for line in lines)
    assert {line["logger"] for line in lines} == {"gunicorn.error"}


GIVEN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
"""A client's trace context."""


@pytest.fixture
def sampler() -> Sampler:
    """Return the sampler of the spans of the test."""
    return ALWAYS_ON


@pytest.fixture
def spans(sampler: Sampler) -> Iterator[InMemorySpanExporter]:
    """Collect the spans of the test."""
    app.finalize()  # if two threads do it at once, one finds tasks that are half made
    exporter = InMemorySpanExporter()
    provider = TracerProvider(sampler)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    telemetry.use(provider)
    yield exporter
    telemetry.use(None)


def ask(path: str) -> str:
    """Ask for a page through the whole WSGI application; return the status line."""
    status: str = call(telemetry.traced(ApiHandler(WSGIHandler())), "GET", path)[0]
    return status


def purchase(buyer: Buyer, sale: Sale, **headers: str) -> str:
    """Buy through the whole WSGI application; return the status line."""
    application = telemetry.traced(ApiHandler(WSGIHandler()))
    status: str = buy_one(application, buyer, sale, **headers)[0]
    return status


def context(span: ReadableSpan) -> tuple[int, int]:
    return span.context.trace_id, span.context.span_id


def parent(span: ReadableSpan) -> tuple[int, int] | None:
    return (span.parent.trace_id, span.parent.span_id) if span.parent else None


def links(span: ReadableSpan) -> set[tuple[int, int]]:
    return {(link.context.trace_id, link.context.span_id) for link in span.links}


def buy_together(first: Buyer, second: Buyer, sale: Sale, *, traced: str = "leader") -> None:
    """Make two purchases in one batch, led by the first; one has a trace context."""
    headers = {"HTTP_TRACEPARENT": GIVEN}
    of_leader, of_other = (headers if traced == each else {} for each in ("leader", "other"))
    lock = RedisLock(client(), f"item:{sale.item_id}", lease=60, renew=False)
    with ExitStack() as both:
        with lock.acquire():
            # The first request leads and waits for the lock; the second one joins its queue.
            leads = partial(purchase, first, sale, **of_leader)
            one = both.enter_context(in_thread(leads))
            wait_for(lambda: counted("inventory_waiting") == 1)
            follows = partial(purchase, second, sale, **of_other)
            other = both.enter_context(in_thread(follows))
            wait_for(lambda: counted("inventory_waiting") == 2)
        assert (one(), other()) == ("201 Created", "201 Created")


def test_trace_of_a_batch_leads_from_requests_to_mails(
    spans, ann, bob, sale, mailoutbox, monkeypatch
):
    monkeypatch.setattr(ITEM_LOCK, "timeout", 60)
    buy_together(ann, bob, sale)
    tasks.follow_up.apply()
    tasks.send_mails.apply()
    assert len(mailoutbox) == 2

    ended = spans.get_finished_spans()
    assert sorted(span.name for span in ended) == [
        "POST /api/v1/sales/{id}/orders",
        "POST /api/v1/sales/{id}/orders",
        "batch",
        "message mails.confirmation",
        "message mails.confirmation",
        "message orders.opened",
    ]
    by_name = {span.name: span for span in ended}
    requests = [span for span in ended if span.name.startswith("POST")]
    [leader] = [span for span in requests if parent(span)]
    [other] = [span for span in requests if not parent(span)]
    batch, message = by_name["batch"], by_name["message orders.opened"]
    assert parent(leader) == (0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331)
    assert parent(batch) == context(leader)
    assert links(batch) == {context(leader), context(other)}
    assert links(leader) == links(other) == {context(batch)}
    assert dict(batch.attributes or {}) == {
        "shop.item": sale.item_id,
        "shop.batch.size": 2,
        "shop.batch.granted": 2,
    }
    assert parent(message) == context(batch)
    for mail in (span for span in ended if span.name == "message mails.confirmation"):
        assert parent(mail) == context(message)


@pytest.mark.parametrize("sampler", [ParentBased(TraceIdRatioBased(0))])
@pytest.mark.parametrize("traced", ["leader", "other", "neither"])
def test_trace_of_a_batch_needs_one_sampled_request(traced, spans, ann, bob, sale, monkeypatch):
    monkeypatch.setattr(ITEM_LOCK, "timeout", 60)
    buy_together(ann, bob, sale, traced=traced)
    if traced == "neither":
        assert spans.get_finished_spans() == ()
        return
    batch, request = sorted(spans.get_finished_spans(), key=lambda span: span.name != "batch")
    assert parent(request) == (0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331)
    assert parent(batch) == context(request)
    assert (links(batch), links(request)) == ({context(request)}, {context(batch)})
    assert (batch.attributes or {})["shop.batch.size"] == 2


def test_spans_have_low_cardinality_and_no_secrets(spans):
    assert ask("/no/such/page/").startswith("404")
    assert ask("/livez") == "200 OK"
    assert ask("/password-reset/MQ/the-token/") == "200 OK"
    missing, reset = spans.get_finished_spans()
    assert (missing.name, reset.name) == ("GET", "GET /password-reset/{user}/{token}/")
    assert "the-token" not in reset.to_json()


def test_tracing_that_is_off_stores_and_wraps_nothing(ann, sale):
    application = ApiHandler(WSGIHandler())
    assert telemetry.traced(application) is application
    assert purchase(ann, sale, HTTP_TRACEPARENT=GIVEN) == "201 Created"
    assert OutboxMessage.objects.get().payload == {"orders": [Order.objects.get().pk]}


def started(**variables: str) -> subprocess.CompletedProcess[str]:
    """Start the web application and ask it for a page; say which modules were imported.

    Tracing starts as `gunicorn.conf.py` starts it, in each worker.
    """
    code = """
import sys
from shop.wsgi import application
from shop.operating import telemetry
telemetry.trace("web")
application = telemetry.traced(application)
from django.test import RequestFactory
request = RequestFactory().get("/favicon.ico", HTTP_HOST="127.0.0.1")
list(application(request.environ, lambda *_: None))
print("imported:", "opentelemetry.sdk.trace" in sys.modules, "sentry_sdk" in sys.modules)
"""
    return run_python(code, **{**os.environ, **variables})


@pytest.mark.long
def test_tracing_exporter_writes_spans_and_off_imports_nothing():
    off = started()
    assert off.stdout == "imported: False False\n", off.stderr
    on = started(OTEL_TRACES_EXPORTER="console", OTEL_TRACES_SAMPLER_ARG="1")
    assert '"name": "GET /favicon.ico"' in on.stdout, on.stderr
    assert '"service.name": "shop-web"' in on.stdout
