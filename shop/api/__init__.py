"""The JSON API under ``/api/v1/``; ``openapi.json`` beside this file describes it."""
