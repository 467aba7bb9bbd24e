"""Runs real lock code, unchanged, in virtual time, and finds the interleaving that breaks it.

`python -m locking.simulator lesson` lists the lessons, `python -m locking.simulator lesson
setnx-expire` breaks one and shows the lock that mends it, `python -m locking.simulator explore`
searches the production lock.
"""
