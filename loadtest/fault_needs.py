"""What faults need of a running shop, by name; pages say what is missing.

Apart from the faults, which need more packages than a process that serves pages has.
"""

REDIS_PROXY = "a proxy before Redis"
DATABASE_PROXY = "a proxy before PostgreSQL"
FAILPOINTS = "failpoints in the shop"
CLOCK = "libfaketime (Debian's package faketime)"
CONTAINERS = "servers in containers that fail over (prove --compose ha)"
DISK = "a small file system under PostgreSQL (a tmpfs, which needs root)"
