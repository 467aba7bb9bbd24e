"""`manage.py bench`: every strategy and the ceiling, in one run."""
