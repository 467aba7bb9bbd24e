"""Locks on other servers, each a thin layer over a kept library, with the contract of `locking`.

For a shop, `locking.redis_lock` is the one to use. These are for programs that have the other
server anyway, and to compare; each module says in its first lines what its server cannot promise.
"""
