"""In-memory models of the servers that locks use, with the commands that locks need."""
