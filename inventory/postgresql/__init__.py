"""Django's PostgreSQL backend whose pool hands out live connections only."""
