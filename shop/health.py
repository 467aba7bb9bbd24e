"""Health checks for load balancers and supervisors."""

from django.db import connection
from django.http import HttpRequest, HttpResponse


def alive(request: HttpRequest) -> HttpResponse:
    """Answer 200: the process serves. Checks no server, so that an outage restarts no worker."""
    return HttpResponse("ok\n", content_type="text/plain")


def ready(request: HttpRequest) -> HttpResponse:
    """Answer 200 if the database does; sales need it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return HttpResponse("ok\n", content_type="text/plain")
