#!/usr/bin/env python
"""The commands of the concert shop. Needs DATABASE_URL and REDIS_URL."""

import os
import sys
from pathlib import Path

from django.core.management import execute_from_command_line

# In a shop of your own, `locking` and `inventory` lie beside your apps, or are installed.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

if __name__ == "__main__":
    os.environ["DJANGO_SETTINGS_MODULE"] = "concerts.settings"
    execute_from_command_line(sys.argv)
