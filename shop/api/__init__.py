"""The JSON API under `/api/v1/`, with the document that describes it."""
