"""The processes of the demo: embedded servers, the shop, Celery and Locust.

`embedded` has PostgreSQL and Valkey from wheels, shared by all commands of one data folder and
stopped by the last. `stack` has what runs against them. Both are kept alive by supervisord
(`supervisor`) and cleared away after a crash (`leftovers`).
"""
