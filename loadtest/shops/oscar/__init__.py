"""django-oscar, as a shop to be judged."""
