"""No file judges itself: what leads out of a lock is refused before it runs."""

import pytest

from course.judge import judge, run
from course.lesson import find

FIRST = find("1")
LOCK = FIRST.solution.read_text()

FRAME = """
def frame():
    try:
        raise ValueError
    except ValueError as error:
        return {}
frame()
"""

REFUSED = {
    "frames of a traceback": (FRAME.format("error.__traceback__"), "__traceback__"),
    "frames of a frame": (FRAME.format("error.with_traceback.f_back"), "f_back"),
    "frames by a pattern": ("match 1:\n    case int(f_locals=x): pass\n", "f_locals"),
    "frames of a generator": ("(x for x in ()).gi_frame", "gi_frame"),
    "globals of a function": ("len.__globals__", "__globals__"),
    "classes of everything": ("object.__subclasses__()", "__subclasses__"),
    "a module inside of one": ("import threading\nthreading._os", "_os"),
    "a module by its name": ("from threading import _os", "_os"),
    "the builtins": ("__builtins__", "__builtins__"),
    "the loader": ("__loader__", "__loader__"),
    "frames by a format": ("'{0.tb_frame}'.format(1)", "format"),
}


@pytest.mark.parametrize("cheat", REFUSED)
def test_file_that_names_what_leads_out_is_refused(cheat):
    source, name = REFUSED[cheat]
    error = judge(FIRST, source + "\n" + LOCK, "f.py").error
    assert error.startswith("f.py: line ")
    assert error.endswith(f"a lock does without the name {name}")


NOT_GIVEN = {
    "a module of a package": "from redis import connection\nconnection.os",
    "a function of another module": "from psycopg.types import uuid\nuuid.import_module",
    "frames by a dynamic name": "getattr(getattr, '__self__')",
    "attributes by a format": "import string\nstring.Formatter",
    "text that is evaluated": "import typing\ntyping.get_type_hints",
    "text that a decorator evaluates": "import functools\nfunctools.singledispatch",
    "attributes by a copy of them": "import functools\nfunctools.update_wrapper",
    "a copy of them from another module": "import contextlib\ncontextlib.wraps",
    "a maker of functions": "import dataclasses\ndataclasses.FunctionType",
    "a tracer": "import threading\nthreading.settrace",
    "the simulator": "import course.simulator.search",
    "the judge": "from course import judge",
    "the interpreter": "import sys",
    "files": "open('/etc/passwd')",
    "text as code": "eval('1')",
}


@pytest.mark.parametrize("cheat", NOT_GIVEN)
def test_file_is_not_given_what_leads_out(cheat):
    error = judge(FIRST, NOT_GIVEN[cheat] + "\n" + LOCK, "f.py").error
    assert error.startswith("f.py"), error


NEVER = """
class Lock:
    def __init__(self, client, name): self.client = client
    def acquire(self, timeout=0.0): return self.client.ping() and {answer}
    def release(self): pass
"""
ONCE = NEVER.format(answer="self.client.setnx('once', 1)")
LONG = """
import time
class Lock:
    def __init__(self, client, name): self.client, self.name = client, name
    def acquire(self, timeout=0.0):
        deadline = time.monotonic() + timeout
        while not self.client.set(self.name, 1, nx=True, ex=86_000):
            if time.monotonic() >= deadline: return False
            time.sleep(1)
        return True
    def release(self): self.client.delete(self.name)
"""


@pytest.mark.parametrize(
    "source",
    [NEVER.format(answer="False"), NEVER.format(answer="True"), ONCE, LONG],
    ids=["never", "always", "once", "long lease"],
)
def test_cheat_does_not_pass(source):
    assert judge(FIRST, source, "f.py").wrong


SHARED = """
from redis import Redis
import time
class Lock:
    def __init__(self, client, name): self.client = client
    def acquire(self, timeout=0.0):
        self.client.ping()
        deadline = time.monotonic() + timeout
        while hasattr(Redis, 'holder') and Redis.holder > time.monotonic():
            if time.monotonic() >= deadline: return False
            time.sleep(1)
        Redis.holder = time.monotonic() + 10
        return True
    def release(self): Redis.holder = 0
"""
PATCHED = "from redis import Redis\nRedis.set = lambda *args, **more: True\n"


@pytest.mark.parametrize(
    "source", [SHARED, PATCHED + LOCK], ids=["shared in a class", "patched class"]
)
def test_file_that_patches_shared_code_does_not_pass(source):
    # In a process of its own: what it changes would stay changed for the tests after this one.
    verdict = run(FIRST, source, "f.py")
    assert not verdict.passed
    assert "it changes redis" in verdict.error or verdict.wrong


def test_file_that_ends_its_process_or_writes_gets_no_verdict():
    for source in ("raise SystemExit", "raise SystemExit(0)", "raise KeyboardInterrupt"):
        verdict = run(FIRST, source, "f.py")
        assert verdict.error, source
        assert not verdict.passed
