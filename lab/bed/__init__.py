"""Test beds: several hosts on one machine, for a shop on engines that fail over (docs/beds.md)."""
