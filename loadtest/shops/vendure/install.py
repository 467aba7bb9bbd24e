"""Vendure with its worker; several servers share the port, as under PM2's cluster mode."""

from loadtest.shops.setup import Setup

SETUP = Setup(
    node=("@vendure/core@3.7.3", "pg@8.23.1"),
    steps=(("node", "seed.js"),),
    serve={"web": ("node", "server.js"), "worker": ("node", "worker.js")},
    ready="/health",
    environment={
        "PORT": "{port}",
        "PROCESSES": "{workers}",
        "SECRET": "{secret}",
        "DB_HOST": "{db_host}",
        "DB_PORT": "{db_port}",
        "DB_NAME": "{db_name}",
        "DB_USER": "{db_user}",
        "DB_PASSWORD": "{db_password}",
        "NODE_ENV": "production",
    },
)
