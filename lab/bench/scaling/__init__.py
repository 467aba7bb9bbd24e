"""A model of sales on many web nodes, fitted to this machine and checked on it."""
