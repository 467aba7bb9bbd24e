"""A simulator that runs real lock code in virtual time and finds interleavings that break it.

`manage.py lesson` lists the lessons, `manage.py lesson setnx-expire` breaks one and shows the lock
that fixes it, `manage.py explore` searches the production lock.
"""
