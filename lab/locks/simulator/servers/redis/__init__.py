"""A Redis (or Valkey) server in memory: the commands that locks are made of.

One command at a time runs to its end, as on the real server, so a plain Python object is a
faithful model of it.  Time is asked of the caller's clock, which is how a lease of ten seconds
can end at once in a test.  The model is compared with a real server, command by command, by
`lab/locks/tests/test_simulator_redis_model.py`.

Keys and values are `bytes`; replies are what redis-py reads from the wire: `int`, `bytes`,
`None`, `list`, or `Status` for a line such as `+OK`.
"""
