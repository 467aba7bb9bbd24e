"""Test beds: several hosts on one machine, with engines that fail over (docs/clusters.md)."""
