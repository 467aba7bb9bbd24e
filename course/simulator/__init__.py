"""A simulator that runs real lock code in virtual time and finds interleavings that break it.

`python -m course.simulator lesson` lists the lessons, `python -m course.simulator lesson
setnx-expire` breaks one and shows the lock that fixes it, `python -m course.simulator explore`
searches the production lock.
"""
