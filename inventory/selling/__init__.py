"""Selling: combine the requests, decide, write, and commit them."""
