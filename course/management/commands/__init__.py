"""Management commands of the course."""
