"""The shop for development and tests: servers from wheels, plain HTTP, payments that succeed.

`servers` describes each kind of server once, and starts one for a test. `embedded` runs PostgreSQL
and Valkey; all commands of a data folder share them, and the last one stops them. supervisord keeps
them alive (`supervisor`); `leftovers` cleans up after a crash.
Production needs none of it.
"""


class StackError(Exception):
    """A process did not start or does not answer; the message is for the user at the terminal."""
