"""OpenTelemetry's traces and Sentry's error reports, off unless their variables are set.

A request has a span. The leader of a batch spans the batch in its own request's trace, with a link
to the request of every purchase in it, and each of these links back. The outbox message and the
mail store the `traceparent` of their cause, so they continue its trace in Celery. A task has no
span: it handles messages of many causes, and the sweeps run every second.

Both are imported when they start (requirements/telemetry.txt). While traces are off, a purchase
pays for one call of an empty function, and a batch for two.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured

from inventory.hooks import Hooks, hooks
from inventory.outcomes import CartTicket
from shop import environment
from shop.operating import logs

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span

Environ = dict[str, Any]
Application = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]

UNTRACED = ("/livez", "/readyz", "/static/")
NUMBERS = re.compile(r"(?<=/)\d+(?=/|$)")
RESET_TOKEN = re.compile(r"(?<=/password-reset/)[^/]+/[^/]+")

REPORTED = ("method", "url")
"""What an error's report keeps of its request."""


def trace(kind: str) -> None:
    """Trace this process, if OTEL_TRACES_EXPORTER says so.

    Args:
        kind: `web` or `celery`; the service is `shop-` and this, unless OTEL_SERVICE_NAME is
            set.

    Raises:
        ImproperlyConfigured: the exporter is unknown, or OpenTelemetry is not installed.
    """
    name = environment.text("OTEL_TRACES_EXPORTER")
    if name in {"", "none"}:
        return
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import Tracer, TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.trace import set_tracer_provider

        processor = BatchSpanProcessor(_exporter(name))
    except ImportError as error:
        raise ImproperlyConfigured(
            f"OTEL_TRACES_EXPORTER needs requirements/telemetry.txt installed: {error}"
        ) from error
    resource = Resource.create()
    if str(resource.attributes["service.name"]).startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": f"shop-{kind}"}))
    environment.hand_on("OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG")
    provider = TracerProvider(resource=resource)
    if not isinstance(provider.get_tracer("shop"), Tracer):
        return  # OTEL_SDK_DISABLED
    provider.add_span_processor(processor)
    set_tracer_provider(provider)  # for instrumentations that a project adds
    use(provider)
    if kind == "celery":
        from celery.signals import worker_process_shutdown

        # A worker's child process exits without what `atexit` would run.
        worker_process_shutdown.connect(lambda **_: provider.shutdown(), weak=False)


def _exporter(name: str) -> SpanExporter:
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter

    if name == "console":
        return ConsoleSpanExporter()
    if name == "otlp":
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        return OTLPSpanExporter()
    raise ImproperlyConfigured(f"OTEL_TRACES_EXPORTER must be otlp, console or none, not {name!r}.")


def without_token(path: str) -> str:
    """Return a path or URL without the token of a password's reset, which would sign a user in."""
    return RESET_TOKEN.sub("{user}/{token}", path)


def _answered(method: str, path: str, code: int) -> tuple[str, dict[str, Any]]:
    """Return the name and the attributes of a request's span."""
    path = without_token(path)
    attributes = {
        "http.request.method": method,
        "url.path": path,
        "http.response.status_code": code,
    }
    if code == 404:  # any path can be asked for, and a name must not be unique
        return method, attributes
    route = NUMBERS.sub("{id}", path)
    return f"{method} {route}", {**attributes, "http.route": route}


_traces: Traces | None = None


def use(provider: TracerProvider | None) -> None:
    """Trace with this provider from now on; None: no more."""
    global _traces
    off = Hooks()
    _traces = Traces(provider) if provider else None
    hooks.current = _traces.current if _traces else off.current
    hooks.batch = _traces.batch if _traces else off.batch
    hooks.message = _traces.message if _traces else off.message
    hooks.parent = _traces.parent if _traces else off.parent


def traced(application: Application) -> Application:
    """Span each request of a WSGI application; return the application itself if tracing is off."""
    return _traces.requests(application) if _traces else application


def traceparent(span: Span) -> str:
    """Return a span as W3C Trace Context names it."""
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


class Traces:
    """The spans of this process."""

    def __init__(self, provider: TracerProvider) -> None:
        from opentelemetry import context, trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._api = trace
        self._root = context.Context()
        self._tracer = provider.get_tracer("shop")
        self._text = TraceContextTextMapPropagator()

    def current(self) -> Span:
        """Return the current span."""
        return self._api.get_current_span()

    def parent(self) -> str:
        """Return the current span as a `traceparent`; empty if there is none."""
        span = self.current()
        return traceparent(span) if span.get_span_context().is_valid else ""

    def _remote(self, parent: str) -> Context:
        return self._text.extract({"traceparent": parent}, self._root) if parent else self._root

    def requests(self, application: Application) -> Application:
        """Span each request of a WSGI application."""

        def call(environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
            path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
            if path.startswith(UNTRACED):
                return application(environ, start_response)
            above = self._remote(environ.get("HTTP_TRACEPARENT", ""))
            span = self._tracer.start_span(method, above, self._api.SpanKind.SERVER)
            environ[logs.SPAN] = span

            def answer(status: str, *rest: Any) -> Any:
                if span.is_recording():
                    name, attributes = _answered(method, path, int(status[:3]))
                    span.update_name(name)
                    span.set_attributes(attributes)
                    if status >= "500":
                        span.set_status(self._api.StatusCode.ERROR)
                return start_response(status, *rest)

            with self._api.use_span(span, end_on_exit=True):
                return application(environ, answer)

        return call

    @contextmanager
    def batch(self, tickets: Sequence[CartTicket]) -> Iterator[None]:
        """Span a batch if one of its requests is sampled, and link it and them to each other.

        It belongs to the leader's trace, or to that of the first sampled request.
        """
        traces = (ticket.request.lines[0].trace for ticket in tickets)
        requests = [span for span in traces if span is not None and span.is_recording()]
        if not requests:
            yield
            return
        above = next((request for request in requests if request is self.current()), requests[0])
        with self._tracer.start_as_current_span(
            "batch",
            self._api.set_span_in_context(above),
            links=[self._api.Link(request.get_span_context()) for request in requests],
        ) as span:
            for request in requests:
                request.add_link(span.get_span_context())
            yield
            granted = sum(isinstance(ticket.answer, list) for ticket in tickets)
            span.set_attributes(
                {
                    "shop.item": tickets[0].request.lines[0].item,
                    "shop.batch.size": len(tickets),
                    "shop.batch.granted": granted,
                }
            )

    def message(self, topic: str, parent: str) -> AbstractContextManager[object]:
        """Span the handling of an outbox message, in the trace of its cause."""
        kind = self._api.SpanKind.CONSUMER
        return self._tracer.start_as_current_span(f"message {topic}", self._remote(parent), kind)


def report_errors() -> None:
    """Report this process's errors to Sentry, if SENTRY_DSN says where to.

    A report has the traceback and the log line of an error and no personal data: no user, address,
    cookie, header, body, query string or local variable.

    Raises:
        ImproperlyConfigured: sentry-sdk is not installed.
    """
    if not environment.is_set("SENTRY_DSN"):
        return
    try:
        import sentry_sdk
    except ImportError as error:
        raise ImproperlyConfigured(
            f"SENTRY_DSN needs requirements/telemetry.txt installed: {error}"
        ) from error
    sentry_sdk.init(**error_options())


def error_options() -> dict[str, Any]:
    """Return the options of `sentry_sdk.init`."""
    return {
        "dsn": environment.text("SENTRY_DSN"),
        "send_default_pii": False,
        "include_local_variables": False,  # they hold tokens, addresses and passwords
        "max_request_body_size": "never",
        "auto_session_tracking": False,
        "max_breadcrumbs": 0,  # they hold what was logged and queried before, for other buyers
        "before_send": without_personal_data,
    }


def without_personal_data(event: Any, _hint: Any) -> Any:
    """Return an event with only what cannot name a person."""
    event.pop("user", None)
    if "request" in event:
        request = event["request"]
        event["request"] = {
            name: without_token(request[name]) for name in REPORTED if name in request
        }
    return event
