"""The lessons: a folder each, found by its name; adding a lesson is adding a folder.

`lesson_07_get_compare_del` is lesson 7, "get-compare-del", and has

- `lock.py`: the lock as people write it.  Do not use it in a shop; use `locking.backends`.
- `README.md`, `README.zh.md`: its text (see `course.text`)
- `__init__.py`: its `PLAN`, the clients and the faults of each flaw, and the lock that fixes it
- `test_lesson.py`: what the lock does on a real server, and the schedule that breaks it
- `cure.py`, if no other lesson's lock solves its exercise; `start.py`, if the exercise begins with
  another file than `lock.py`
"""
