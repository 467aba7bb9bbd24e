"""Spans in OTLP's protobuf, written as bytes.

OpenTelemetry's own encoder makes an object for each span, link, attribute and value, which takes
longer than all else that tracing does for a request. The field numbers are those of its
``trace.proto``. It still encodes what is made once, and spans with what those of requests and
batches do not have.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanContext, SpanKind, StatusCode, TraceFlags

from shop.spans import Description, HotSpan, fields

# Tags, and the lengths of what has a fixed one.
TRACE, SPAN, START, END = b"\x0a\x10", b"\x12\x08", b"\x39", b"\x41"
LINK = b"\x6a\x21" + TRACE

_own = struct.Struct("<2s16s2s8scQcQ")
_linked = struct.Struct("<4s16s2s8sc4s")

_KINDS = {kind: bytes((0x30, kind.value + 1)) for kind in SpanKind}
_STATUSES = {
    StatusCode.UNSET: b"\x7a\x00",
    StatusCode.OK: b"\x7a\x02\x18\x01",
    StatusCode.ERROR: b"\x7a\x02\x18\x02",
}
_NEAR, _FAR = struct.pack("<I", 0x100), struct.pack("<I", 0x300)
"""Flags: the parent, or the linked span, is of this process or of another one."""

_ANY = SpanContext(1, 1, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


class EncodingProcessor(BatchSpanProcessor):
    """Encodes each span at its end, and keeps the bytes until they are exported.

    A span that waits is some twenty objects. Hundreds of them push everything else that the process
    needs out of the processor's caches.
    """

    def on_end(self, span: ReadableSpan) -> None:
        """Take a span."""
        if span.context.trace_flags.sampled:
            super().on_end(cast(ReadableSpan, EncodedSpan(span)))


class EncodedSpan:
    """A span in OTLP's protobuf, with what the others of its group share."""

    __slots__ = ("resource", "scope", "span")

    context = _ANY
    """Is asked only whether the span is sampled."""

    def __init__(self, span: ReadableSpan) -> None:
        self.resource, self.scope = span.resource, span.instrumentation_scope
        self.span = _field(b"\x12", _span(span))


class Encoded:
    """Encoded spans as an export request, which the exporter only serialises."""

    def __init__(self, spans: Sequence[ReadableSpan]) -> None:
        self._spans = cast(Sequence[EncodedSpan], spans)

    def SerializePartialToString(self) -> bytes:  # noqa: N802 - as protobuf names it
        """Return the request."""
        groups: defaultdict[tuple[int, int], list[EncodedSpan]] = defaultdict(list)
        for each in self._spans:
            # Not by equality: a resource would write itself as JSON for its hash.
            groups[id(each.resource), id(each.scope)].append(each)
        return b"".join(_field(b"\x0a", _group(spans)) for spans in groups.values())


def _group(spans: Sequence[EncodedSpan]) -> bytes:
    """Return the ``ResourceSpans`` of one resource and scope."""
    one = ReadableSpan("", _ANY, resource=spans[0].resource, instrumentation_scope=spans[0].scope)
    [around] = encode_spans([one]).resource_spans
    scope = around.scope_spans[0]
    del scope.spans[:], around.scope_spans[:]
    content = b"".join([each.span for each in spans])
    return around.SerializeToString() + _field(b"\x12", scope.SerializeToString() + content)


def _field(tag: bytes, content: bytes) -> bytes:
    return tag + _length(len(content)) + content


@lru_cache(1024)
def _length(number: int) -> bytes:
    size = b""
    while number > 0x7F:
        size += bytes((number & 0x7F | 0x80,))
        number >>= 7
    return size + bytes((number,))


def _span(span: ReadableSpan) -> bytes:
    if not isinstance(span, HotSpan) or not span.plain:
        return _any_span(span)
    context, parent, name, attributes, description, kind, start, end, linked, status = fields(span)
    try:
        described = _described(description) if description else _name_and(name, attributes)
    except TypeError:  # a list as a value has no hash
        return _any_span(span)
    trace, own = context[:2]
    return b"".join(
        (
            _own.pack(TRACE, trace.to_bytes(16), SPAN, own.to_bytes(8), START, start, END, end),
            b"\x22\x08" + parent.span_id.to_bytes(8) if parent else b"",
            described,
            _KINDS[kind],
            *map(_link, linked),
            _STATUSES[status.status_code],
            b"\x85\x01",
            _FAR if parent and parent.is_remote else _NEAR,
        )
    )


def _any_span(span: ReadableSpan) -> bytes:
    return encode_spans([span]).resource_spans[0].scope_spans[0].spans[0].SerializeToString()


def _link(context: SpanContext) -> bytes:
    trace, own, far = context[:3]
    flags = _FAR if far else _NEAR
    return _linked.pack(LINK, trace.to_bytes(16), SPAN, own.to_bytes(8), b"\x35", flags)


@lru_cache(1024)
def _described(description: Description) -> bytes:
    return _name_and(description.name, description.attributes)


def _name_and(name: str, attributes: Mapping[str, Any]) -> bytes:
    return b"".join(
        (_field(b"\x2a", name.encode()), *map(_attribute, attributes, attributes.values()))
    )


@lru_cache(1024, typed=True)  # 1 and True are equal
def _attribute(key: str, value: Any) -> bytes:
    span = ReadableSpan("", _ANY, attributes={key: value}, resource=Resource.get_empty())
    [encoded] = encode_spans([span]).resource_spans[0].scope_spans[0].spans
    return b"".join(_field(b"\x4a", each.SerializeToString()) for each in encoded.attributes)
