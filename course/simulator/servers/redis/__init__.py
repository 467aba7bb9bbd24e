"""A Redis (or Valkey) server in memory, with the commands that locks use.

Commands run one at a time, as on the real server, so a plain Python object is a faithful model.
Time comes from the caller's clock, so that a test can end a lease of ten seconds at once.
`course/tests/test_simulator_redis_model.py` compares the model with a real server, command by
command.

Keys and values are `bytes`; replies are what redis-py reads from the wire: `int`, `bytes`,
`None`, `list`, or `Status` for a line such as `+OK`.
"""
