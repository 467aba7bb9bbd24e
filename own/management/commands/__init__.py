"""Commands that replace Django's."""
