"""The processes of the demo: embedded servers, the shop, Celery and Locust.

`embedded` runs PostgreSQL and Valkey from wheels; all commands of a data folder share them, and the
last one stops them. `stack` runs the shop's processes. supervisord keeps both alive (`supervisor`);
`leftovers` cleans up after a crash.
"""
