"""The embedded servers: durable, private, shared, and gone when nobody needs them."""

import psycopg
import pytest
import redis
from django.conf import settings
from django.db import connection


@pytest.mark.django_db
def test_commits_of_the_embedded_postgres_are_durable():
    with connection.cursor() as cursor:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            cursor.execute(f"SHOW {setting}")
            assert cursor.fetchone() == ("on",), setting


def test_the_embedded_postgres_refuses_a_wrong_password():
    server = settings.DATABASES["default"]
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(
            host=server["HOST"], port=server["PORT"], user="shop", password="x", dbname="postgres"
        )


def test_the_embedded_valkey_refuses_a_client_without_password():
    stranger = redis.Redis.from_url(settings.REDIS_URL)
    stranger.connection_pool.connection_kwargs["password"] = None
    with stranger, pytest.raises(redis.AuthenticationError):
        stranger.ping()
