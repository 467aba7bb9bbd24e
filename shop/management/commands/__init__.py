"""One command a file; the work is done by the packages that they call."""
