"""Spans of the hot path: OpenTelemetry's interface with less work per span than its SDK's own.

The SDK makes a lock, two bounded lists and a bounded dictionary for each span, and a dictionary for
each link. A purchase has a span and two links, which took longer than its share of the transaction.
Only a request's own thread and the leader of its batch write to its span, and neither writes much,
so plain dictionaries and lists do; the SDK's limits do not apply to them.

A span is itself the ``ReadableSpan`` that the provider's processors get when it ends, not a copy.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
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
_NOTHING: Mapping[str, Any] = {}

SAMPLES_ROOTS = ("AlwaysOnSampler", "ParentBased{root:AlwaysOnSampler,")
"""How the samplers' descriptions begin that take every span without a parent."""

fields = attrgetter(
    *("_context", "_parent", "_name", "_attributes", "description"),
    *("_kind", "_start_time", "_end_time", "_linked", "_status"),
)
"""Returns what a plain `HotSpan` has recorded."""


@dataclass(frozen=True, slots=True, eq=False)
class Description:
    """A name and attributes that many spans share.

    It equals nothing but itself, so that what is derived from it can be cached by it.
    """

    name: str
    attributes: Mapping[str, Any]


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
        self._samples_roots = self.tracer.sampler.get_description().startswith(SAMPLES_ROOTS)

    def start(
        self,
        name: str,
        kind: SpanKind,
        above: Context = _ROOT,
        links: Sequence[SpanContext] = (),
    ) -> trace.Span:
        """Start a span; one that records nothing if the sampler does not want it.

        Args:
            name, kind: of the span.
            links: to other spans.
            above: where its parent is.
        """
        if self._samples_roots and not above:  # so the sampler need not be asked
            flags = _FLAGS[self._random | TraceFlags.SAMPLED]
            context = SpanContext(self._trace_id(), self._span_id(), False, flags)
            span = HotSpan(self, name, kind, context, None, links)
        else:
            parent: SpanContext | None = trace.get_current_span(above).get_span_context()
            random = self._random
            if parent and parent.is_valid:
                trace_id, random = parent.trace_id, parent.trace_flags & TraceFlags.RANDOM_TRACE_ID
            else:
                parent, trace_id = None, self._trace_id()
            linked = [Link(each) for each in links]
            wanted = self.tracer.sampler.should_sample(above, trace_id, name, kind, None, linked)
            flags = _FLAGS[random | wanted.decision.is_sampled()]
            context = SpanContext(trace_id, self._span_id(), False, flags, wanted.trace_state)
            if not wanted.decision.is_recording():
                return trace.NonRecordingSpan(context)
            span = HotSpan(self, name, kind, context, parent, links)
            span.plain = not wanted.trace_state
            if wanted.attributes:
                span.set_attributes(wanted.attributes)
        self.tracer.span_processor.on_start(cast(Span, span), above)  # it may set attributes
        return span


class HotSpan(ReadableSpan, trace.Span):
    """A recording span.

    Attributes:
        description: of name and attributes, if there is one.
        plain: it has no events, no state of a vendor, no description of its status, and no
            attributes at its links.
    """

    # Most spans keep most of these.
    _instrumentation_info = None
    _context: SpanContext
    _attributes: Mapping[str, Any] = _NOTHING
    _linked: tuple[SpanContext | Link, ...]  # a link is made when one is read
    _events: tuple[Event, ...] = ()
    _status = _UNSET
    _end_time: int | None = None
    description: Description | None = None
    plain = True

    def __init__(
        self,
        tracer: HotTracer,
        name: str,
        kind: SpanKind,
        context: SpanContext,
        parent: SpanContext | None,
        links: Iterable[SpanContext],
    ) -> None:
        # Not by the base's constructor, which takes thrice as long.
        self._on_end = tracer.tracer.span_processor.on_end
        self._resource, self._instrumentation_scope = tracer.tracer.resource, tracer.scope
        self._name, self._kind, self._context, self._parent = name, kind, context, parent
        self._linked = tuple(links)
        self._start_time = time.time_ns()

    def get_span_context(self) -> SpanContext:
        """Return the span's ids."""
        return self._context

    def is_recording(self) -> bool:
        """Whether the span has not ended."""
        return self._end_time is None

    def describe(self, description: Description) -> None:
        """Set name and attributes; those it has already give way."""
        if self._end_time is not None:
            return
        if self._attributes:
            description = Description(
                description.name, {**self._attributes, **description.attributes}
            )
        self.description = description
        self._name, self._attributes = description.name, description.attributes

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Set attributes."""
        if self._end_time is None:
            self._attributes, self.description = {**self._attributes, **attributes}, None

    def set_attribute(self, key: str, value: Any) -> None:
        """Set an attribute."""
        self.set_attributes({key: value})

    def add_link(self, context: SpanContext, attributes: Any = None) -> None:
        """Link the span to another one."""
        if self._end_time is None:
            self._linked += (Link(context, attributes) if attributes else context,)
            self.plain = self.plain and not attributes

    @property
    def links(self) -> Sequence[Link]:
        """The links to other spans."""
        return [each if isinstance(each, Link) else Link(each) for each in self._linked]

    _links = links  # as the base calls it

    def add_event(self, name: str, attributes: Any = None, timestamp: int | None = None) -> None:
        """Note an event."""
        if self._end_time is None:
            self._events += (Event(name, attributes, timestamp),)
            self.plain = False

    def update_name(self, name: str) -> None:
        """Rename the span."""
        if self._end_time is None:
            self._name, self.description = name, None

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        """Set the status."""
        if self._end_time is None:
            if not isinstance(status, Status):
                status = Status(status, description)
            self._status = status
            self.plain = self.plain and not status.description

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
        if self._end_time is None:
            self._end_time = end_time or time.time_ns()
            self._on_end(self)


class Current:
    """Makes a span the current one for a block, and ends it; an exception is noted on it.

    Args:
        span: to begin with; the block's value.
    """

    # A class, since a generator would take twice as long.
    __slots__ = ("_span", "_token")

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def __enter__(self) -> trace.Span:
        self._token = attach(trace.set_span_in_context(self._span))
        return self._span

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        detach(self._token)
        if isinstance(error, Exception):
            self._span.record_exception(error)
            self._span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))
        self._span.end()
