"""Tests of what a development machine starts."""
