"""What runs after the requests and next to them: Celery, its tasks and its schedule."""
