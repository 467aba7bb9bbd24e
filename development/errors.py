"""The error of processes; its message is for the user at the terminal."""


class StackError(Exception):
    """A process did not start or does not answer."""
