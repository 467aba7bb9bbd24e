"""``manage.py bench``: every strategy beside the ceiling, in one run."""
