"""This project's own shop: its paths, its statuses, its fields, and nothing else of the proof."""
