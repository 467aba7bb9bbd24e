"""Selling: combine requests, decide, write and commit."""
