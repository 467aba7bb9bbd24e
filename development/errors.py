"""Errors of processes; their messages are for the user at the terminal."""


class StackError(Exception):
    """A process did not start or does not answer."""


class PortTaken(StackError):
    """A port that the user chose is in use."""

    def __init__(self, variable: str, port: int) -> None:
        super().__init__(
            f"Port {port}, set in {variable}, is in use. "
            f"Stop the program that uses it, choose another port, or unset {variable}."
        )


class ProcessFailed(StackError):
    """A process did not start; carries the last lines of its log."""

    def __init__(self, name: str, reason: str, log: str) -> None:
        super().__init__(f"{name} {reason}. Its last log lines:\n{log or '(it wrote nothing)'}")
        self.name = name
