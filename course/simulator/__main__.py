"""`python -m course.simulator lesson|explore`."""

import sys

from course.simulator.cli import main

if __name__ == "__main__":  # a process that the explorer spawns imports this file too
    sys.exit(main())
