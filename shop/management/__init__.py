"""The shop's `manage.py` commands."""
