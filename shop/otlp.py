"""Spans in OTLP's protobuf, written as bytes.

OpenTelemetry's own encoder makes an object for each span, link, attribute and value, which takes
longer than all else that tracing does for a request. The field numbers are those of its
``trace.proto``. It still encodes what is made once, and spans with what those of requests and
batches do not have.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext, StatusCode

# Between the ids and the lists: kind, start, end.
_kind_and_times = struct.Struct("<cBcQcQ")
_flags = struct.Struct("<2sI")
_link_flags = struct.Struct("<cI")

_STATUSES = {StatusCode.UNSET: b"\x7a\x00", StatusCode.ERROR: b"\x7a\x02\x18\x02"}
_ANY = SpanContext(1, 1, is_remote=False)


class Encoded:
    """Spans as an export request, which the exporter only serialises."""

    def __init__(self, spans: Sequence[ReadableSpan]) -> None:
        self._spans = spans

    def SerializePartialToString(self) -> bytes:  # noqa: N802 - as protobuf names it
        """Return the request."""
        groups: defaultdict[tuple[int, int], list[ReadableSpan]] = defaultdict(list)
        for span in self._spans:
            # Not by equality: a resource would write itself as JSON for its hash.
            groups[id(span.resource), id(span.instrumentation_scope)].append(span)
        return b"".join(_field(b"\x0a", _group(spans)) for spans in groups.values())


def _group(spans: Sequence[ReadableSpan]) -> bytes:
    """Return the ``ResourceSpans`` of one resource and scope."""
    [around] = encode_spans(spans[:1]).resource_spans
    scope = around.scope_spans[0]
    del scope.spans[:], around.scope_spans[:]
    content = b"".join(_field(b"\x12", _span(span)) for span in spans)
    return around.SerializeToString() + _field(b"\x12", scope.SerializeToString() + content)


def _field(tag: bytes, content: bytes) -> bytes:
    length, size = len(content), b""
    while length > 0x7F:
        size += bytes((length & 0x7F | 0x80,))
        length >>= 7
    return tag + size + bytes((length,)) + content


def _span(span: ReadableSpan) -> bytes:
    context, parent, status, links = span.context, span.parent, span.status, span.links
    try:
        attributes = [_attribute(key, value) for key, value in (span.attributes or {}).items()]
    except TypeError:  # a list, which has no hash
        return _any_span(span)
    if (
        context.trace_state
        or span.events
        or status.description
        or status.status_code not in _STATUSES
        or any([link.attributes for link in links])  # noqa: C419 - a list is faster
        or span.dropped_attributes
        or span.dropped_links
    ):
        return _any_span(span)
    return b"".join(
        (
            _ids(context),
            b"\x22\x08" + parent.span_id.to_bytes(8) if parent else b"",
            _name(span.name),
            _kind_and_times.pack(
                *(b"\x30", span.kind.value + 1, b"\x39", span.start_time, b"\x41", span.end_time)
            ),
            *attributes,
            *(_link(link.context) for link in links),
            _STATUSES[status.status_code],
            _flags.pack(b"\x85\x01", _remote(parent)),
        )
    )


def _any_span(span: ReadableSpan) -> bytes:
    return encode_spans([span]).resource_spans[0].scope_spans[0].spans[0].SerializeToString()


def _ids(context: SpanContext) -> bytes:
    ids = context.trace_id.to_bytes(16), context.span_id.to_bytes(8)
    return b"\x0a\x10%b\x12\x08%b" % ids


def _remote(context: SpanContext | None) -> int:
    return 0x300 if context and context.is_remote else 0x100


def _link(context: SpanContext) -> bytes:
    return b"\x6a\x21" + _ids(context) + _link_flags.pack(b"\x35", _remote(context))


@lru_cache(1024)
def _name(name: str) -> bytes:
    return _field(b"\x2a", name.encode())


@lru_cache(1024, typed=True)  # 1 and True are equal
def _attribute(key: str, value: Any) -> bytes:
    span = ReadableSpan("", _ANY, attributes={key: value}, resource=Resource.get_empty())
    [encoded] = encode_spans([span]).resource_spans[0].scope_spans[0].spans
    return b"".join(_field(b"\x4a", each.SerializeToString()) for each in encoded.attributes)
