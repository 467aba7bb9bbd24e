"""Serve a Django project's API with gunicorn and gevent: a worker and what it needs.

The package imports nothing of this repository; copy the folder to reuse it (`README.md`).
"""
