"""What runs after and beside the requests: Celery, its tasks and its schedule."""
