"""Metrics for Prometheus: counters of all processes, and the state of the books and servers."""
