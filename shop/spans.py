"""Spans of the hot path: OpenTelemetry's interface with less work per span than its SDK's own.

The SDK makes a lock, two bounded lists and a bounded dictionary for each span, and a dictionary for
each link. A purchase has a span and two links, which took longer than its share of the transaction.
Only a request's own thread and the leader of its batch write to its span, and neither writes much,
so plain dictionaries and lists do; the SDK's limits do not apply to them.

What ends is an ordinary ``ReadableSpan`` for whatever processors the provider has.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.sdk.trace import Event, ReadableSpan, Span, Tracer, TracerProvider
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

# Made once: each costs as much as the rest of a span's ids.
_FLAGS = tuple(TraceFlags(number) for number in range(4))
_ROOT = Context()
_UNSET = Status()


class HotTracer:
    """Starts spans.

    Args:
        provider: whose sampler, ids, resource and processors the spans have.
    """

    def __init__(self, provider: TracerProvider) -> None:
        self.tracer = cast(Tracer, provider.get_tracer("shop"))
        self.scope = InstrumentationScope("shop")
        ids = self.tracer.id_generator
        self._trace_id, self._span_id = ids.generate_trace_id, ids.generate_span_id
        self._random = TraceFlags.RANDOM_TRACE_ID if ids.is_trace_id_random() else 0

    def start(
        self,
        name: str,
        kind: SpanKind,
        above: Context = _ROOT,
        links: Sequence[Link] = (),
    ) -> trace.Span:
        """Start a span; one that records nothing if the sampler does not want it.

        Args:
            name, kind, links: of the span.
            above: where its parent is.
        """
        parent: SpanContext | None = None
        random = self._random
        if above:
            parent = trace.get_current_span(above).get_span_context()
        if parent and parent.is_valid:
            trace_id, random = parent.trace_id, parent.trace_flags & TraceFlags.RANDOM_TRACE_ID
        else:
            parent, trace_id = None, self._trace_id()
        wanted = self.tracer.sampler.should_sample(above, trace_id, name, kind, None, links)
        flags = _FLAGS[random | wanted.decision.is_sampled()]
        context = SpanContext(trace_id, self._span_id(), False, flags, wanted.trace_state)
        if not wanted.decision.is_recording():
            return trace.NonRecordingSpan(context)
        span = HotSpan(self, name, kind, context, parent)
        if wanted.attributes:
            span.attributes.update(wanted.attributes)
        span.links.extend(links)
        self.tracer.span_processor.on_start(cast(Span, span), above)  # it may set attributes
        return span


class HotSpan(trace.Span):
    """A recording span."""

    def __init__(
        self,
        tracer: HotTracer,
        name: str,
        kind: SpanKind,
        context: SpanContext,
        parent: SpanContext | None,
    ) -> None:
        self._tracer = tracer
        self._name = name
        self._kind = kind
        self._context = context
        self._parent = parent
        self.attributes: dict[str, Any] = {}
        self.links: list[Link] = []
        self._events: list[Event] = []
        self._status = _UNSET
        self._recording = True
        self._began = time.time_ns()

    def get_span_context(self) -> SpanContext:
        """Return the span's ids."""
        return self._context

    def is_recording(self) -> bool:
        """Whether the span has not ended."""
        return self._recording

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Set attributes."""
        self.attributes.update(attributes)

    def set_attribute(self, key: str, value: Any) -> None:
        """Set an attribute."""
        self.attributes[key] = value

    def add_link(self, context: SpanContext, attributes: Any = None) -> None:
        """Link the span to another one."""
        self.links.append(Link(context, attributes))

    def add_event(self, name: str, attributes: Any = None, timestamp: int | None = None) -> None:
        """Note an event."""
        self._events.append(Event(name, attributes, timestamp))

    def update_name(self, name: str) -> None:
        """Rename the span."""
        self._name = name

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        """Set the status."""
        self._status = status if isinstance(status, Status) else Status(status, description)

    def record_exception(
        self,
        exception: BaseException,
        attributes: Any = None,
        timestamp: int | None = None,
        escaped: bool = False,
    ) -> None:
        """Note an exception as an event."""
        kind = type(exception)
        found = {
            "exception.type": f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins."),
            "exception.message": str(exception),
            "exception.stacktrace": "".join(traceback.format_exception(exception)),
            "exception.escaped": str(escaped),
        }
        self.add_event("exception", {**found, **(attributes or {})}, timestamp)

    def end(self, end_time: int | None = None) -> None:
        """End the span, and pass it on to be exported."""
        if not self._recording:
            return
        self._recording = False
        tracer = self._tracer.tracer
        tracer.span_processor.on_end(
            ReadableSpan(
                self._name,
                self._context,
                self._parent,
                tracer.resource,
                self.attributes,
                self._events,
                self.links,
                self._kind,
                status=self._status,
                start_time=self._began,
                end_time=end_time or time.time_ns(),
                instrumentation_scope=self._tracer.scope,
            )
        )


@contextmanager
def as_current(span: trace.Span) -> Iterator[trace.Span]:
    """Make a span the current one, and end it; an exception is noted on it."""
    token = attach(trace.set_span_in_context(span))
    try:
        yield span
    except Exception as error:
        span.record_exception(error)
        span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))
        raise
    finally:
        detach(token)
        span.end()
