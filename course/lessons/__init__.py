"""The lessons: a folder each, found by its name; adding a lesson is adding a folder.

`lesson_07_get_compare_del` is lesson 7, "get-compare-del", and has

- `lock.py`: the lock as people write it.  Do not use it in a shop; use `locking.redis_lock`.
- `README.md`: its text in both languages (see `course.lesson`)
- `__init__.py`: its `PLAN`, the clients and the faults of each flaw, the schedule that breaks the
  lock, and the lock that fixes it; tests play each schedule (`course/tests/test_lessons.py`)
- `cure.py`, if no other lesson's lock solves its exercise; `start.py`, if the exercise begins with
  another file than `lock.py`
"""
