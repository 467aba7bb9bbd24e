"""Demonstrations, proofs, benchmarks and lessons: a Django app of the demo only."""
