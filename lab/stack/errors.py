"""What can go wrong with processes; each message is meant for the person at the terminal."""


class StackError(Exception):
    """The processes could not be brought up, or could not be reached."""


class PortTaken(StackError):
    """A port that the user asked for is in use."""

    def __init__(self, variable: str, port: int) -> None:
        super().__init__(
            f"Port {port}, asked for by {variable}, is in use. "
            f"Stop what uses it or choose another; without {variable} a free one is taken."
        )


class ProcessFailed(StackError):
    """A process did not come up; carries the last lines of its log."""

    def __init__(self, name: str, reason: str, log: str) -> None:
        super().__init__(f"{name} {reason}. Its last log lines:\n{log or '(it wrote nothing)'}")
        self.name = name
