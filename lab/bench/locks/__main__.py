"""``python -m lab.bench.locks``."""

from lab.bench.locks.cli import main

if __name__ == "__main__":
    main()
