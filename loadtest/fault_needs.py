"""What faults need of a running shop, by name; pages say what is missing.

Apart from the faults, which need more packages than a process that serves pages has.
"""

REDIS_PROXY = "a proxy before Redis"
DATABASE_PROXY = "a proxy before PostgreSQL"
FAILPOINTS = "failpoints in the shop"
CLOCK = "libfaketime (Debian's package faketime)"
BED = "a test bed of several hosts (prove --bed)"
SENTINEL = "the bed sentinel (prove --bed sentinel)"
CLUSTER = "the bed cluster (prove --bed cluster)"
PATRONI = "the bed patroni (prove --bed patroni)"
RABBITMQ = "the bed rabbitmq (prove --bed rabbitmq)"
DISK = "a small file system under PostgreSQL (a tmpfs, which needs root)"
