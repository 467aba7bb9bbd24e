"""In-memory models of the servers that locks are built on: the commands they use, no more."""
