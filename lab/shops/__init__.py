"""Real shops on this machine: installed, filled, started, and stopped again."""
