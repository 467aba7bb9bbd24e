"""Medusa as its deployment guide says: cluster mode, Redis for events, workflows and the cache.

Medusa's lock lives in the memory of each process unless a provider is named; its documentation
recommends Redis where there are several processes, and has one for PostgreSQL too.
"""

from loadtest.shops.setup import Setup

MEDUSA = "2.21.2"

SETUP = Setup(
    node=(f"@medusajs/medusa@{MEDUSA}", f"@medusajs/framework@{MEDUSA}", f"@medusajs/cli@{MEDUSA}"),
    steps=(
        # The lock in PostgreSQL has a table of its own, made only where it is configured.
        ("env", "LOCK=postgres", "{bin}/medusa", "db:migrate", "--skip-scripts"),
        ("{bin}/medusa", "exec", "./seed.js"),
        ("{bin}/medusa", "user", "-e", "admin@example.com", "-p", "flash-sale-proof"),
    ),
    serve={
        "web": (
            "{bin}/medusa",
            "start",
            "-H",
            "127.0.0.1",
            "-p",
            "{port}",
            "--cluster",
            "{workers}",
        )
    },
    ready="/health",
    environment={
        "DATABASE_URL": "{database}",
        "REDIS_URL": "{redis}",
        "JWT_SECRET": "{secret}",
        "COOKIE_SECRET": "{secret}",
        "MEDUSA_DISABLE_TELEMETRY": "true",
        "NODE_ENV": "production",
        "LOCK": "memory",
    },
    rows={"redis-lock": {"LOCK": "redis"}, "postgres-lock": {"LOCK": "postgres"}},
)
