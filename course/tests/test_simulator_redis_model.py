"""The server's model answers like the server: random commands on both, compared one by one."""

import random

import pytest
from redis import Redis
from redis.exceptions import ResponseError

from course.simulator.redis_model import RedisModel

# What lessons, locks and learners use of it, and all that is not fakeredis' own.
COMMANDS = (
    """
SET {key} {word}; SET {key} {word} NX; SET {key} {word} XX GET; SET {key} {word} PX 100000 NX
SET {key} {word} KEEPTTL; SET {key} {word} EX 0; SET {key} {word} NX XX
SETEX {key} {many} {word}; SETEX {key} 0 {word}; PSETEX {key} {many}000 {word}
SETNX {key} {word}; GETSET {key} {word}; GET {key}; MGET {key} {other}
INCRBY {key} {number}; DECR {key}; DEL {key} {other}; EXISTS {key} {other} {key}; TYPE {key}
EXPIRE {key} {many}; EXPIRE {key} -1; EXPIRE {key} {many} GT; PERSIST {key}; TTL {key}
RPUSH {key} {word} {field}; LPUSH {key} {word} {field}; LPOP {key}; LLEN {key}
LINDEX {key} {number}; LRANGE {key} {number} -1; LREM {key} {number} {word}
HSET {key} {field} {word}; HGET {key} {field}; HINCRBY {key} {field} {number}
HDEL {key} {field}; HEXISTS {key} {field}; SADD {key} {field}; SREM {key} {field}; SCARD {key}
ZADD {key} {score} {field}; ZADD {key} GT CH {score} {field}; ZREM {key} {field} {word}
ZSCORE {key} {field}; ZCARD {key}; ZRANGE {key} {number} -1 WITHSCORES
ZRANGEBYSCORE {key} (1 +inf WITHSCORES LIMIT 0 2; ZREMRANGEBYSCORE {key} -inf 1
EVAL SCRIPT 1 {key} {word}; EVALSHA 0000000000000000000000000000000000000000 0; NOSUCH {key}; GET
""".strip()
    .replace("\n", "; ")
    .split("; ")
)
WORDS = ["a", "b", "7", "-3", "2.5"]

# A script of every kind of value that crosses between Lua and the server.
SCRIPT = b"""
local seen = redis.call('GET', KEYS[1])
if seen == ARGV[1] then return {1, 2.9, 'x', {3, false, 4}, false, 5} end
if seen == false then return redis.call('SET', KEYS[1], ARGV[1]) end
local answer = redis.pcall('INCR', KEYS[1])
if type(answer) == 'table' and answer.err then return redis.error_reply('ERR no number') end
return {tostring(answer), string.format('%.0f', 1784000000000001), redis.call('TYPE', KEYS[1])}
"""


def random_command(dice: random.Random) -> list[bytes]:
    values = {
        **{name: dice.choice(["k1", "k2", "k3"]) for name in ("key", "other")},
        **{name: dice.choice(WORDS) for name in ("word", "field")},
        "score": dice.choice(["1", "2", "2.5", "-1", "inf"]),
        "number": dice.randint(-2, 3),
        "many": dice.randint(100, 90_000),
    }
    words = dice.choice(COMMANDS).format(**values).encode().split()
    return [SCRIPT if word == b"SCRIPT" else word for word in words]


@pytest.fixture
def ask(store, store_server):
    """Return raw replies, without redis-py's conversions."""
    with Redis.from_url(store_server.endpoint, protocol=2) as client:
        connection = client.connection_pool.get_connection()

        def send(words: list[bytes]):
            connection.send_command(*words)
            return connection.read_response(disable_decoding=True)

        yield send
        client.connection_pool.release(connection)


def answer(ask, words: list[bytes]):
    """Return the reply, or "error": an error's text does not matter."""
    try:
        return ask(words)
    except ResponseError:
        return "error"


@pytest.fixture
def model(store: Redis) -> RedisModel:
    def now() -> int:
        seconds, microseconds = store.time()
        return seconds * 1_000_000 + microseconds

    return RedisModel(now)


@pytest.mark.parametrize("seed", range(8))
def test_redis_model_answers_like_a_real_server(ask, model, seed):
    dice = random.Random(seed)
    for number in range(600):
        words = random_command(dice)
        real = answer(ask, words)
        modelled = answer(model.execute, words)
        assert modelled == real, f"command {number}: {words}"


def test_redis_model_key_expires_by_the_clock():
    clock = [1_000_000]
    model = RedisModel(lambda: clock[0])
    model.execute([b"SET", b"k", b"v", b"PX", b"10"])
    clock[0] += 9_999
    assert model.execute([b"PTTL", b"k"]) == 1
    clock[0] += 1
    assert model.execute([b"GET", b"k"]) is None
    assert model.execute([b"PTTL", b"k"]) == -2
