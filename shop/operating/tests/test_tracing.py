"""Traces: the spans of a batch and its mails; nothing while tracing is off."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from uuid import uuid4

import pytest
from django.core.handlers.wsgi import WSGIHandler
from django.test import RequestFactory
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased, Sampler, TraceIdRatioBased

from inventory.metrics import metrics
from inventory.models import OutboxMessage
from inventory.redis import ITEM_LOCK, client
from inventory.tests.helpers import in_thread
from locking.backends.redis import RedisLock
from shop.api.handler import ApiHandler
from shop.background import tasks
from shop.catalogue.models import Sale
from shop.celery import app
from shop.conftest import Buyer
from shop.operating import tracing
from shop.orders.models import Order
from shop.tests.processes import run_python, wait_for

pytestmark = pytest.mark.django_db(transaction=True)

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
    tracing.use(provider)
    yield exporter
    tracing.use(None)


def ask(buyer: Buyer, method: str, path: str, body: object = None, **headers: str) -> str:
    """Send a request through the whole WSGI application; return its status line."""
    answered: list[str] = []
    environ = (
        RequestFactory()
        .generic(
            method,
            path,
            json.dumps(body) if body else "",
            "application/json",
            headers={"authorization": f"Bearer {buyer.token}", **headers},
        )
        .environ
    )
    application = tracing.traced(ApiHandler(WSGIHandler()))
    list(application(environ, lambda status, *_: answered.append(status)))
    return answered[0]


def purchase(buyer: Buyer, sale: int, **headers: str) -> str:
    path = f"/api/v1/sales/{sale}/orders"
    sent = {"idempotency-key": str(uuid4()), **headers}
    return ask(buyer, "POST", path, {"quantity": 1}, **sent)


def context(span: ReadableSpan) -> tuple[int, int]:
    return span.context.trace_id, span.context.span_id


def parent(span: ReadableSpan) -> tuple[int, int] | None:
    return (span.parent.trace_id, span.parent.span_id) if span.parent else None


def links(span: ReadableSpan) -> set[tuple[int, int]]:
    return {(link.context.trace_id, link.context.span_id) for link in span.links}


def buy_together(first: Buyer, second: Buyer, sale: Sale, *, traced: str = "leader") -> None:
    """Make two purchases in one batch, led by the first; one has a trace context."""
    headers = {"traceparent": GIVEN}
    of_leader, of_other = (headers if traced == each else {} for each in ("leader", "other"))
    lock = RedisLock(client(), f"item:{sale.item_id}", lease=60, renew=False)
    with ExitStack() as both:
        with lock.acquire():
            # The first request leads and waits for the lock; the second one joins its queue.
            leads = partial(purchase, first, sale.pk, **of_leader)
            one = both.enter_context(in_thread(leads))
            wait_for(lambda: metrics.snapshot()["gauges"]["waiting"] == 1)
            follows = partial(purchase, second, sale.pk, **of_other)
            other = both.enter_context(in_thread(follows))
            wait_for(lambda: metrics.snapshot()["gauges"]["waiting"] == 2)
        assert (one(), other()) == ("201 Created", "201 Created")


def test_a_batch_of_two_is_traced_from_the_requests_to_the_mails(
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
@pytest.mark.parametrize("leads", [True, False])
def test_a_batch_is_traced_if_one_of_its_requests_is_sampled(
    leads, spans, ann, bob, sale, monkeypatch
):
    monkeypatch.setattr(ITEM_LOCK, "timeout", 60)
    buy_together(ann, bob, sale, traced="leader" if leads else "other")
    batch, request = sorted(spans.get_finished_spans(), key=lambda span: span.name != "batch")
    assert parent(request) == (0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331)
    assert parent(batch) == context(request)
    assert (links(batch), links(request)) == ({context(request)}, {context(batch)})
    assert (batch.attributes or {})["shop.batch.size"] == 2


@pytest.mark.parametrize("sampler", [ParentBased(TraceIdRatioBased(0))])
def test_a_batch_without_a_sampled_request_is_not_traced(spans, ann, bob, sale, monkeypatch):
    monkeypatch.setattr(ITEM_LOCK, "timeout", 60)
    buy_together(ann, bob, sale, traced="neither")
    assert spans.get_finished_spans() == ()


def test_spans_have_low_cardinality_and_no_secrets(spans, ann):
    assert ask(ann, "GET", "/no/such/page/").startswith("404")
    assert ask(ann, "GET", "/livez") == "200 OK"
    assert ask(ann, "GET", "/password-reset/MQ/the-token/") == "200 OK"
    missing, reset = spans.get_finished_spans()
    assert (missing.name, reset.name) == ("GET", "GET /password-reset/{user}/{token}/")
    assert "the-token" not in reset.to_json()


def test_without_tracing_nothing_is_stored_and_nothing_is_wrapped(ann, sale):
    application = ApiHandler(WSGIHandler())
    assert tracing.traced(application) is application
    assert purchase(ann, sale.pk, traceparent=GIVEN) == "201 Created"
    assert OutboxMessage.objects.get().payload == {"orders": [Order.objects.get().pk]}


def started(**variables: str) -> subprocess.CompletedProcess[str]:
    """Start the web application and ask it for a page; say which modules were imported."""
    code = """
import sys
from shop.wsgi import application
from django.test import RequestFactory
request = RequestFactory().get("/favicon.ico", HTTP_HOST="127.0.0.1")
list(application(request.environ, lambda *_: None))
print("imported:", "opentelemetry.sdk.trace" in sys.modules, "sentry_sdk" in sys.modules)
"""
    return run_python(code, **{**os.environ, **variables})


def test_the_console_exporter_writes_spans_and_off_imports_nothing():
    off = started()
    assert off.stdout == "imported: False False\n", off.stderr
    on = started(OTEL_TRACES_EXPORTER="console", OTEL_TRACES_SAMPLER_ARG="1")
    assert '"name": "GET /favicon.ico"' in on.stdout, on.stderr
    assert '"service.name": "shop-web"' in on.stdout


def test_an_unknown_exporter_is_refused():
    refused = started(OTEL_TRACES_EXPORTER="zipkin")
    assert refused.returncode == 1
    assert "OTEL_TRACES_EXPORTER must be otlp, console or none, not 'zipkin'." in refused.stderr
