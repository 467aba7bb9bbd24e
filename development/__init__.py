"""The shop for development and tests: servers from wheels, plain HTTP, payments that succeed.

`embedded` runs PostgreSQL and Valkey; all commands of a data folder share them, and the last one
stops them. supervisord keeps them alive (`supervisor`); `leftovers` cleans up after a crash.
Production needs none of it.
"""
