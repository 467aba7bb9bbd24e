"""The load: Locust scenarios, the history of the answers that buyers got, and its checker.

Imports nothing of the shop and reaches it over HTTP only, so that it can judge another shop with
the same API.
"""
