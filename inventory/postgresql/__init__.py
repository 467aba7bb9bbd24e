"""Django's PostgreSQL backend with a pool that hands out only live connections."""
