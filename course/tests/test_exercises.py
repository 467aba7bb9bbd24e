"""Each lesson's exercise: lazy and cheating solutions that must not pass, and right ones that must.

A solution is lazy if it does what the exercise asks for and forgets another duty of a lock: one
inside; free after a release; free when the lease of a dead holder ends, and not before; and, where
the lesson teaches it, another's lock left alone.
"""

import pytest

from course.judge import judge
from course.lesson import find

SIMPLE = """
import time
import uuid

class Lock:
    def __init__(self, client, name, *, ttl=10, wait=1.0):
        self.client, self.name, self.ttl, self.wait = client, name, ttl, wait
        self.token = uuid.uuid4().hex

    def acquire(self, timeout=0.0):
        deadline = time.monotonic() + timeout
        while not self.take():
            if time.monotonic() >= deadline:
                return False
            time.sleep(self.wait)
        return True

    def take(self):
        {take}

    def release(self):
        {release}
"""
SET = "return self.client.set(self.name, 1, nx=True, ex={})"
SET_TOKEN = "return self.client.set(self.name, self.token, nx=True, ex=self.ttl)"
DELETE = "self.client.delete(self.name)"
GET_AND_DELETE = f"if self.client.get(self.name) == self.token.encode(): {DELETE}"
COMPARE_AND_DELETE = (
    "self.client.eval(\"if redis.call('GET', KEYS[1]) == ARGV[1] then "
    "return redis.call('DEL', KEYS[1]) end return 0\", 1, self.name, self.token)"
)


def simple(take: str, release: str) -> str:
    return SIMPLE.format(take=take, release=release)


def changed(lesson: str, *replacements: tuple[str, str]) -> str:
    """Return a lesson's solution with replacements."""
    source = find(lesson).solution.read_text()
    for right, wrong in replacements:
        assert source.count(right) == 1, right
        source = source.replace(right, wrong)
    return source


RELEASES = {
    **dict.fromkeys(("1", "2", "4"), DELETE),
    **dict.fromkeys(("3", "5", "6"), GET_AND_DELETE),
    **dict.fromkeys(("7", "8", "9"), COMPARE_AND_DELETE),
}
"""What each lesson on one Redis server asks of a release, at least."""

WRONG_LEASES = {
    "a day": ("86_000", "a dead holder's lock outlives its lease"),
    "for ever": ("None", "nobody can ever enter"),
    "3 s more": ("self.ttl + 3", "a dead holder's lock outlives its lease"),
    "10 s whatever is given": ("10", "outlives its lease|two holders at once"),
    "half": ("self.ttl // 2", "two holders at once"),
    "1 s less": ("self.ttl - 1", "two holders at once"),
    "ms for s": ("self.ttl * 1000", "a dead holder's lock outlives its lease"),
}


@pytest.mark.parametrize("lesson", [*"134567"])
@pytest.mark.parametrize("lease", WRONG_LEASES)
def test_exercise_refuses_another_lease_than_the_given(lesson, lease):
    seconds, wrong = WRONG_LEASES[lease]
    take = SET.format(seconds).replace("1, nx", "self.token, nx")
    verdict = judge(find(lesson), simple(take, RELEASES[lesson]), "f.py")
    assert any(one in verdict.wrong for one in wrong.split("|")), verdict


@pytest.mark.parametrize("lesson", [*"1567"])
def test_exercise_refuses_a_day_and_a_plain_delete(lesson):
    source = simple("return self.client.set(self.name, 1, nx=True, ex=86_000)", DELETE)
    assert judge(find(lesson), source, "f.py").wrong


FENCED_TOKEN = """
import time
from course.lessons.lesson_09_watchdog.lock import WatchdogLock

class Clocked(WatchdogLock):
    def acquire(self, timeout=0.0):
        got = super().acquire(timeout)
        self.token = {}
        return got
"""
COUNTED_AFTERWARDS = FENCED_TOKEN.format("self._client.incr('fence')")
ONE_BUYER = """\
        once = "INSERT INTO sold (id, buyer) VALUES (%s, %s) ON CONFLICT DO NOTHING"
        if not self.connection.execute(once, (1, 1)).rowcount:
            return False
"""

STOCK = """
import uuid
from psycopg import OperationalError
from psycopg.errors import UniqueViolation

TAKE = "UPDATE item SET available = available - 1 WHERE id = 1 AND available > 0"
ORDER = "INSERT INTO orders (number, buyer) VALUES (%s, %s)"

class Stock:
    def __init__(self, connect): self.connect = connect
    def buy(self, buyer, key):
        with self.connect() as connection:
            {body}
        return "sold"
"""


def stock(*body: str) -> str:
    """Return a file whose `buy` has these lines."""
    return STOCK.format(body="\n            ".join(body))


TAKE_OR_REFUSE = "if not connection.execute(TAKE).rowcount: return 'sold out'"
GUARDED = (TAKE_OR_REFUSE, "connection.execute(ORDER, (uuid.uuid4().hex, buyer))")
READ = "(left,) = connection.execute('select available from item where id = 1').fetchone()"
READ_LOCKED = READ.replace("id = 1", "id = 1 for update")
LOOK_FIRST = (
    "found = connection.execute('SELECT * FROM orders WHERE number = %s', (key,)).rowcount",
    "if found: return 'sold'",
)
INSERT_FIRST = (
    "try: connection.execute(ORDER, (key, buyer))",
    "except UniqueViolation: connection.rollback(); return 'sold'",
    "if not connection.execute(TAKE).rowcount: connection.rollback(); return 'sold out'",
)
LOOK_UP = """
    def buy(self, buyer, key):
        try:
            return self.sell(buyer, key)
        except OperationalError:
            pass
        try:
            query = "SELECT number FROM orders WHERE number = %s"
            return "sold" if self.connect().execute(query, (key,)).rowcount else "failed"
        except OperationalError:
            return "unknown"
"""
"""What a step's solution becomes in the third: its `buy` renamed, and this one before it."""


def looks_up(*body: str, failed: str = LOOK_UP) -> str:
    return stock(*body).replace("def buy", "def sell") + failed


ROLLED_BACK = "self._connection.rollback()\n            return False\n        return"

LAZY = [
    # 1: a lock that nobody else can take, or everybody
    ("1", simple("return self.client.set(self.name, 1, ex=self.ttl)", DELETE), "two holders"),
    ("1", simple(SET.format("self.ttl"), "pass"), "the lock was not released"),
    ("1", simple("self.client.ping(); return True", "pass"), "two holders at once"),
    # 2: what is left behind is cleared away, or never repaired
    ("2", simple(SET.format("self.ttl"), DELETE), "a client never got the lock"),
    (
        "2",
        simple(SET.format("self.ttl"), DELETE).replace(
            "uuid.uuid4().hex", "client.delete(name) and None"
        ),
        "two holders at once",
    ),
    # 3 and 4: a lock that trusts no clock within 20 s, and one of monotonic clocks
    *(
        (
            lesson,
            simple(
                """if self.client.setnx(self.name, time.time() + self.ttl): return True
        seen = float(self.client.get(self.name) or 0) + 20
        return time.time() > seen and float(self.client.getset(
            self.name, time.time() + self.ttl) or 0) + 20 == seen""",
                DELETE,
            ),
            "",
        )
        for lesson in "34"
    ),
    *(
        (
            lesson,
            simple(
                """if self.client.setnx(self.name, time.monotonic() + self.ttl): return True
        seen = self.client.get(self.name)
        return (seen is not None and time.monotonic() > float(seen)
            and self.client.getset(self.name, time.monotonic() + self.ttl) == seen)""",
                "if float(self.client.get(self.name) or 0) > time.monotonic(): " + DELETE,
            ),
            "",
        )
        for lesson in "34"
    ),
    # 5 to 9: another's lock, under a key of another name, and by other commands than DEL
    *(
        (lesson, source, "")
        for lesson in "567"
        for source in (
            simple(SET.format("self.ttl"), DELETE),
            simple(SET.format("self.ttl"), DELETE).replace("= client, name", "= client, 'x:'+name"),
            simple(SET.format("self.ttl"), "self.client.pexpire(self.name, 1)"),
            simple(SET.format("self.ttl"), "self.client.set(self.name, '', px=1)"),
            simple(SET.format("self.ttl"), "self.client.rename(self.name, 'old')"),
        )
    ),
    *(
        (
            lesson,
            simple(
                SET_TOKEN + "  #",
                f"if time.monotonic() < self.until: {DELETE}",
            ).replace(
                "        return True\n",
                "        self.until = time.monotonic() + self.ttl\n        return True\n",
            ),
            "",
        )
        for lesson in "78"
    ),
    ("8", simple(SET.format("86_000"), DELETE), ""),
    ("8", simple(SET_TOKEN.replace("self.ttl", "self.ttl + 20"), COMPARE_AND_DELETE), ""),
    ("8", simple(SET_TOKEN, COMPARE_AND_DELETE), "two holders at once"),
    (
        "8",
        changed(
            "8",
            (
                "HEXISTS', KEYS[1], ARGV[2]) == 1 then\n  return redis.call('PEXPIRE'",
                "EXISTS', KEYS[1]) == 1 then\n  return redis.call('PEXPIRE'",
            ),
            ("self._end_watch()\n        count", "count"),
        ),
        "a dead holder's lock outlives its lease",
    ),
    # 9: numbers that are no count of the grants
    ("9", FENCED_TOKEN.format("1"), "a stale write accepted"),
    ("9", FENCED_TOKEN.format("getattr(self, 'token', 0) + 1"), "a stale write accepted"),
    ("9", FENCED_TOKEN.format("time.time()"), "refused"),
    ("9", FENCED_TOKEN.format("time.monotonic()"), "refused"),
    ("9", COUNTED_AFTERWARDS, "two holders at once"),
    # 10: one server, any server, all servers
    ("10", changed("10", ("super().__init__(clients,", "super().__init__(clients[:1],")), ""),
    ("10", changed("10", ("self.token = 0", "self.token = 0; self._ttl = 3600")), ""),
    # 11 and 12: a row that stays
    (
        "11",
        find("11").start.read_text().replace("time.time())", "time.time() + 1e9)"),
        "nobody can ever enter",
    ),
    (
        "12",
        find("11").start.read_text().replace("return False\n        return", ROLLED_BACK),
        "",
    ),
    # 13: one refund of all orders, another amount, nothing recorded
    ("13", changed("13", ("(order, amount)", "('order', amount)")), ""),
    ("13", changed("13", ("(order, amount)", "(order, 0)")), "the books do not balance"),
    # 14
    ("14", changed("14", ("expire=self._ttl,", "expire=0,")), "outlives its lease|nobody can"),
    ("14", changed("14", ("expire=self._ttl,", "expire=86_000,")), "outlives its lease|nobody can"),
    # 15: another key
    ("15", changed("15", ('VALUES (%s)", (key,))', 'VALUES (%s)", ("order",))')), ""),
    # 16: one key for all
    ("16", changed("16", ("uuid.uuid4().hex", '"my-order"')), "an order that is not there once"),
    # 17: the first message only
    ("17", changed("17", ("self.outbox.pending()", "self.outbox.pending()[:1]")), "forgotten"),
    # 18: other quantities, one buyer at most
    ("18", changed("18", ("(items[item], item, items[item])", "(1, item, 1)")), ""),
    (
        "18",
        changed("18", ("        for item in sorted", f"{ONE_BUYER}        for item in sorted")),
        "undersold",
    ),
    # 19: the check of a moment ago; nobody gets any; the stock and the order apart
    (
        "19",
        stock(
            READ,
            "if left < 1: return 'sold out'",
            "connection.execute('UPDATE item SET available = available - 1')",
            "connection.execute(ORDER, (key, buyer))",
        ),
        "oversold",
    ),
    ("19", stock("return 'sold out'"), "undersold"),
    ("19", stock(TAKE_OR_REFUSE), "the books do not balance"),
    (
        "19",
        stock(TAKE_OR_REFUSE, "connection.commit()", "connection.execute(ORDER, (key, buyer))"),
        "the books do not balance",
    ),
    # 20: look, then sell; the unit first, so that the last one is refused to who has it; one order
    # for each buyer; taken twice
    ("20", stock(*LOOK_FIRST, *GUARDED), "an order that is not there once"),
    (
        "20",
        stock(
            TAKE_OR_REFUSE,
            "try: connection.execute(ORDER, (key, buyer))",
            "except UniqueViolation: connection.rollback()",
        ),
        "a buyer told what is not so",
    ),
    ("20", stock(*INSERT_FIRST).replace("(key, buyer)", "(buyer, buyer)"), "told what is not so"),
    (
        "20",
        stock(
            TAKE_OR_REFUSE,
            "connection.execute(ORDER + ' ON CONFLICT DO NOTHING', (key, buyer))",
        ),
        "told what is not so|the books do not balance",
    ),
    # 21: an error is no sale, or one, or never known; once more under another key
    *(
        ("21", looks_up(*INSERT_FIRST, failed=failed), "a buyer told what is not so")
        for failed in (
            LOOK_UP.replace("pass", "return 'failed'"),
            LOOK_UP.replace("pass", "return 'sold'"),
            LOOK_UP.replace("pass", "return 'unknown'"),
            LOOK_UP.replace('return "unknown"', "raise"),
        )
    ),
    (
        "21",
        looks_up(
            *INSERT_FIRST, failed=LOOK_UP.replace("pass", "return self.sell(buyer, key + '2')")
        ),
        "an order that is not there once|a buyer told what is not so",
    ),
]


@pytest.mark.parametrize(
    ("lesson", "source", "wrong"),
    # The search in Redlock's exercise takes as long as all the others.
    [pytest.param(*case, marks=[pytest.mark.long] if case[0] == "10" else []) for case in LAZY],
)
def test_exercise_refuses_a_lazy_solution(lesson, source, wrong):
    verdict = judge(find(lesson), source, "f.py")
    assert verdict.wrong, verdict
    assert not verdict.error
    assert any(one in verdict.wrong for one in wrong.split("|")), verdict


HEARTBEAT = """
import threading
import time
import uuid

RENEW = "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('PEXPIRE', KEYS[1], ARGV[2])"
RELEASE = "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1])"

class Heartbeat:
    def __init__(self, client, name, ttl):
        self.client, self.name, self.ttl = client, name, ttl
        self.token, self.over = uuid.uuid4().hex, threading.Event()

    def acquire(self, timeout=0.0):
        end = time.monotonic() + timeout
        while not self.client.set(self.name, self.token, nx=True, px=int(self.ttl * 1000)):
            if time.monotonic() >= end:
                return False
            time.sleep(0.5)
        threading.Thread(target=self.renew, daemon=True).start()
        return True

    def renew(self):
        while not self.over.wait(self.ttl / 4):
            if not self.client.eval(RENEW, 1, self.name, self.token, int(self.ttl * 1000)):
                return

    def release(self):
        self.over.set()
        self.client.eval(RELEASE, 1, self.name, self.token)
"""
COUNTED = """
TAKE = '''if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
return redis.call('INCR', KEYS[2]) end return 0'''

class Counted(Heartbeat):
    def acquire(self, timeout=0.0):
        end = time.monotonic() + timeout
        given = 2, self.name, "count", self.mine, self.ttl * 1000
        while not (number := self.client.eval(TAKE, *given)):
            if time.monotonic() >= end:
                return False
            time.sleep(0.5)
        self.token = number
        threading.Thread(target=self.renew, daemon=True).start()
        return True
"""
REDIS_PYS = """
class Lock:
    def __init__(self, client, name, ttl=10): self.lock = client.lock(name, timeout=ttl)
    def acquire(self, timeout=0.0): return self.lock.acquire(blocking_timeout=timeout)
    def release(self):
        try: self.lock.release()
        except Exception: pass
"""

RIGHT = [
    *(
        ("1", source)
        for source in (
            simple(SET.format("self.ttl"), DELETE),
            simple(SET.format("self.ttl"), DELETE).replace("ttl=10", "ttl=30"),
            simple(SET.format("self.ttl"), DELETE).replace("ttl=10", "ttl"),
            simple(SET.format("10"), DELETE)
            .replace("*, ttl=10, wait=1.0", "")
            .replace(
                "self.ttl, self.wait = client, name, ttl, wait", "self.wait = client, name, 0.3"
            ),
            simple(SET.format("self.ttl + 1"), DELETE),
        )
    ),
    *((lesson, REDIS_PYS) for lesson in "134567"),
    *((lesson, simple(SET_TOKEN, COMPARE_AND_DELETE)) for lesson in "134567"),
    *((lesson, simple(SET_TOKEN, GET_AND_DELETE)) for lesson in "356"),
    *(
        (
            lesson,
            simple(SET_TOKEN, COMPARE_AND_DELETE).replace("= client, name", "= client, 'x:'+name"),
        )
        for lesson in "1567"
    ),
    ("8", HEARTBEAT),
    ("9", HEARTBEAT.replace("self.token", "self.mine") + COUNTED),
    (
        "13",
        """
from psycopg.errors import UniqueViolation
class Guard:
    def __init__(self, connection): self.connection = connection
    def refund(self, order, amount):
        try:
            self.connection.execute(
                "INSERT INTO refund (order_id, amount) VALUES (%s, %s)", (order, amount))
        except UniqueViolation:
            return False
        return True
""",
    ),
    ("14", changed("14", ('b"", version', 'b"gone", version'))),
    (
        "15",
        """
from psycopg import OperationalError
class Sale:
    def __init__(self, connect): self.connect = connect
    def buy(self, key):
        while True:
            connection = self.connect()
            try:
                connection.execute(
                    "INSERT INTO orders (key) VALUES (%s) ON CONFLICT DO NOTHING", (key,))
                connection.commit()
            except OperationalError:
                continue
            return "sold"
""",
    ),
    (
        "16",
        """
import uuid
class Client:
    def __init__(self, shop): self.shop, self.key = shop, str(uuid.uuid4())
    def place(self):
        try: self.shop.buy(self.key)
        except ConnectionError: self.place()
""",
    ),
    (
        "17",
        """
class Notifier:
    def __init__(self, outbox, mailer): self.outbox, self.mailer = outbox, mailer
    def run_once(self):
        pending = self.outbox.pending()
        for message in pending: self.mailer.send(message)
        for message in pending: self.outbox.mark_done(message)
""",
    ),
    ("18", changed("18", ("sorted(items)", "sorted(items, reverse=True)"))),
    (
        "18",
        """
class Cart:
    def __init__(self, connection): self.connection = connection
    def buy(self, items):
        left = {}
        for item in sorted(items):
            query = "SELECT available FROM stock WHERE item = %s FOR UPDATE"
            (left[item],) = self.connection.execute(query, (item,)).fetchone()
        enough = all(left[item] >= quantity for item, quantity in items.items())
        for item in items if enough else ():
            take = "UPDATE stock SET available = available - %s WHERE item = %s"
            self.connection.execute(take, (items[item], item))
        self.connection.commit()
        return enough
""",
    ),
    ("19", stock(*GUARDED)),
    (
        "19",
        stock(
            READ_LOCKED,
            "if left < 1: return 'sold out'",
            "connection.execute('UPDATE item SET available = %s WHERE id = 1', [left - 1])",
            "connection.execute(ORDER, (key, buyer))",
        ),
    ),
    ("20", stock(*INSERT_FIRST)),
    (
        "20",
        stock(READ_LOCKED, *LOOK_FIRST, *GUARDED).replace("uuid.uuid4().hex", "key"),
    ),
    ("21", looks_up(*INSERT_FIRST)),
    ("21", looks_up(*INSERT_FIRST, failed=LOOK_UP.replace("pass", "return self.buy(buyer, key)"))),
]


@pytest.mark.parametrize(("lesson", "source"), RIGHT)
def test_exercise_accepts_another_right_solution(lesson, source):
    assert judge(find(lesson), source, "f.py").passed
