"""Mails to buyers."""
