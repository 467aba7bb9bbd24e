"""The spans' bytes say what OpenTelemetry's own encoder says, and they are what is sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, cast
from unittest.mock import Mock

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http import trace_exporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Tracer, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceState

from shop import otlp, tracing
from shop.spans import Current, Description, HotSpan, HotTracer

NEAR = SpanContext(2**127 + 1, 2**63 + 1, is_remote=False, trace_flags=trace.TraceFlags(1))
FAR = SpanContext(1, 1, is_remote=True, trace_flags=trace.TraceFlags(1))
STATED = SpanContext(3, 3, True, trace.TraceFlags(1), TraceState([("vendor", "value")]))


class Refused(Exception):
    """An exception that is not built in."""


class Spans:
    """A provider whose spans are kept."""

    def __init__(self, **resource: str) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider(resource=Resource(resource))
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.hot, self.sdk = HotTracer(provider), cast(Tracer, provider.get_tracer("sdk"))

    @property
    def ended(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()


def below(context: SpanContext) -> Any:
    return trace.set_span_in_context(trace.NonRecordingSpan(context))


def links(tracer: HotTracer | Tracer) -> None:
    given = [NEAR, FAR]
    if isinstance(tracer, HotTracer):
        span = tracer.start("links", SpanKind.SERVER, below(FAR), given)
    else:
        linked = [Link(each) for each in given]
        span = tracer.start_span("links", below(FAR), SpanKind.SERVER, links=linked)
    span.add_link(FAR, {"with": "attributes"})
    span.end()


def change(do: Callable[[trace.Span], object]) -> Callable[[HotTracer | Tracer], None]:
    """Return what starts a span, does something with it, and ends it."""

    def with_either(tracer: HotTracer | Tracer) -> None:
        if isinstance(tracer, HotTracer):
            span = tracer.start("name", SpanKind.SERVER)
        else:
            span = tracer.start_span("name", kind=SpanKind.SERVER)
        do(span)
        span.end()

    return with_either


def describe(*after: Callable[[trace.Span], object]) -> Callable[[trace.Span], None]:
    """Return what describes a span, and changes it before and after."""

    def of_either(span: trace.Span) -> None:
        span.set_attributes({"a": "before", "first": True})
        if isinstance(span, HotSpan):
            span.describe(Description("GET /", {"a": "b", "code": 200}))
        else:
            span.update_name("GET /")
            span.set_attributes({"a": "b", "code": 200})
        for change in after:
            change(span)

    return of_either


SPANS: dict[str, Callable[[HotTracer | Tracer], None]] = {
    "nothing": change(lambda span: None),
    "one and true": change(lambda span: span.set_attributes({"a": 1, "b": True, "c": 1.0})),
    "numbers": change(lambda span: span.set_attributes({"a": -1, "b": 2**62, "c": False, "d": 0})),
    "long text": change(lambda span: span.set_attribute("path", "/" + "长" * 20_000)),
    "list": change(lambda span: span.set_attribute("list", ["a", "b"])),
    "name": change(lambda span: span.update_name("n" * 200)),
    "described": change(describe()),
    "described, renamed": change(describe(lambda span: span.update_name("n"))),
    "described, changed": change(describe(lambda span: span.set_attribute("code", 500))),
    "error": change(lambda span: span.set_status(StatusCode.ERROR)),
    "why": change(lambda span: span.set_status(Status(StatusCode.ERROR, "it broke"))),
    "fine": change(lambda span: span.set_status(StatusCode.OK)),
    "link": change(lambda span: span.add_link(NEAR)),
    "event": change(lambda span: span.add_event("event", {"a": 1}, 5)),
    "exception": change(lambda span: span.record_exception(ValueError("no"), timestamp=5)),
    "own exception": change(lambda span: span.record_exception(Refused("no"), timestamp=5)),
    "links": links,
}


@pytest.mark.parametrize("kind", ["hot", "sdk"])
@pytest.mark.parametrize("name", SPANS)
def test_a_spans_bytes_say_what_opentelemetrys_encoder_says(name, kind):
    spans = Spans(service="shop-web")
    SPANS[name](getattr(spans, kind))
    spans.sdk.start_span("neighbour").end()
    [span] = spans.ended[:1]
    assert written([span]) == encode_spans([span])


def written(spans: Any) -> ExportTraceServiceRequest:
    encoded: Any = [otlp.EncodedSpan(span) for span in spans]
    return ExportTraceServiceRequest.FromString(otlp.Encoded(encoded).SerializePartialToString())


@pytest.mark.parametrize("name", SPANS)
def test_a_light_span_records_what_the_sdks_own_records(name):
    spans = Spans()
    SPANS[name](spans.hot)
    SPANS[name](spans.sdk)
    light, own = spans.ended
    one, other = (json.dumps(dict(each.attributes or {}), sort_keys=True) for each in spans.ended)
    assert one == other
    for each in ("name", "kind", "parent", "dropped_attributes", "dropped_links"):
        assert getattr(light, each) == getattr(own, each), each
    assert light.status.status_code is own.status.status_code
    assert light.status.description == own.status.description
    assert [(link.context, dict(link.attributes or {})) for link in light.links] == [
        (link.context, dict(link.attributes or {})) for link in own.links
    ]
    assert [
        (event.name, event.timestamp, dict(event.attributes or {})) for event in light.events
    ] == [(event.name, event.timestamp, dict(event.attributes or {})) for event in own.events]


def test_a_child_has_its_parents_trace_and_state():
    spans = Spans()
    with Current(spans.hot.start("child", SpanKind.SERVER, below(STATED))) as span:
        assert trace.get_current_span() is span
    [ended] = spans.ended
    assert (ended.context.trace_id, ended.parent) == (STATED.trace_id, STATED)
    assert ended.context.trace_state == STATED.trace_state
    assert written([ended]) == encode_spans([ended])


def test_an_exception_is_on_the_span_that_it_ends_and_goes_on():
    spans = Spans()
    with pytest.raises(ValueError, match="no"), Current(spans.hot.start("x", SpanKind.SERVER)):
        raise ValueError("no")
    [ended] = spans.ended
    assert ended.status.status_code is StatusCode.ERROR
    assert [dict(event.attributes or {})["exception.message"] for event in ended.events] == ["no"]


def test_one_description_serves_many_spans():
    spans = Spans()
    shared = Description("GET /", {"code": 200})
    for name in ("", "changed", ""):
        span = cast(HotSpan, spans.hot.start("x", SpanKind.SERVER))
        span.describe(shared)
        if name:
            span.update_name(name)
            span.set_attribute("code", 500)
        span.end()
    assert [(span.name, dict(span.attributes or {})) for span in spans.ended] == [
        *(("GET /", {"code": 200}), ("changed", {"code": 500}), ("GET /", {"code": 200})),
    ]
    assert written(spans.ended) == encode_spans(spans.ended)


def test_what_has_ended_does_not_change():
    spans = Spans()
    for tracer in (spans.hot, spans.sdk):
        if isinstance(tracer, HotTracer):
            span = tracer.start("x", SpanKind.SERVER)
        else:
            span = tracer.start_span("x", kind=SpanKind.SERVER)
        span.end()
        span.set_attribute("late", 1)
        span.add_event("late")
        span.add_link(NEAR)
        span.set_status(StatusCode.ERROR)
        span.update_name("late")
        span.end()
    light, own = spans.ended
    for ended in (light, own):
        assert (ended.name, dict(ended.attributes or {})) == ("x", {})
        assert (list(ended.events), list(ended.links)) == ([], [])
        assert ended.status.status_code is StatusCode.UNSET


@pytest.mark.parametrize(
    ("sampler", "argument"),
    [
        *(("always_off", ""), ("parentbased_always_off", "")),
        *(("traceidratio", "0"), ("parentbased_traceidratio", "0")),
    ],
)
def test_what_the_sampler_does_not_want_is_not_recorded(sampler, argument, monkeypatch):
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", sampler)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", argument)
    spans = Spans()
    with Current(spans.hot.start("x", SpanKind.SERVER)) as span:
        assert not span.is_recording()
    assert spans.ended == ()


@pytest.mark.parametrize("sampler", ["always_on", "parentbased_always_on"])
def test_the_sampler_is_not_asked_about_roots_that_it_always_takes(sampler, monkeypatch):
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", sampler)
    spans = Spans()
    unsampled = SpanContext(7, 7, is_remote=True, trace_flags=trace.TraceFlags(0))
    asked = Mock(wraps=spans.hot.tracer.sampler.should_sample)
    monkeypatch.setattr(spans.hot.tracer.sampler, "should_sample", asked)
    spans.hot.start("root", SpanKind.SERVER).end()
    spans.hot.start("child", SpanKind.SERVER, below(unsampled)).end()
    assert [call.args[1] for call in asked.mock_calls] == [7]
    names = {"always_on": ["root", "child"], "parentbased_always_on": ["root"]}
    assert [span.name for span in spans.ended] == names[sampler]


def test_each_resource_and_scope_has_its_own_spans():
    web, celery = Spans(service="web"), Spans(service="celery")
    for spans in (web, celery):
        SPANS["nothing"](spans.hot)
        SPANS["link"](spans.sdk)
    request = written([*web.ended, *celery.ended])
    assert [
        (each.resource.attributes[0].value.string_value, scope.scope.name, len(scope.spans))
        for each in request.resource_spans
        for scope in each.scope_spans
    ] == [("web", "shop", 1), ("web", "sdk", 1), ("celery", "shop", 1), ("celery", "sdk", 1)]


@pytest.mark.parametrize(("kept", "sent", "sizes"), [("8", "2", [2, 1]), ("3", "", [3])])
def test_as_many_spans_are_sent_at_once_as_is_set(kept, sent, sizes, monkeypatch):
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", kept)
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", sent)
    export, made = Mock(), Mock(wraps=otlp.EncodingProcessor)
    monkeypatch.setattr(otlp, "EncodingProcessor", made)
    monkeypatch.setattr(trace_exporter.OTLPSpanExporter, "export", export)
    monkeypatch.setattr(trace_exporter, "encode_spans", encode_spans)  # put back afterwards
    spans = Spans()
    SPANS["nothing"](spans.hot)
    processor = tracing._processor("otlp")
    for _ in range(3):
        processor.on_end(spans.ended[0])
    processor.shutdown()
    assert [len(call.args[0]) for call in export.mock_calls] == sizes
    assert made.call_args.kwargs["max_queue_size"] == int(kept)


def test_the_exporter_sends_these_bytes(monkeypatch):
    taken: list[tuple[str, bytes]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            taken.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.setattr(trace_exporter, "encode_spans", encode_spans)  # put back afterwards
    spans = Spans()
    SPANS["link"](spans.hot)
    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setattr(otlp.Encoded, "SerializePartialToString", lambda _: b"made here")
        processor = tracing._processor("otlp")
        processor.on_end(spans.ended[0])
        processor.shutdown()
    assert taken == [("/v1/traces", b"made here")]
