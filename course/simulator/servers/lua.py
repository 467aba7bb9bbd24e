"""Run a lock's Lua scripts, unchanged, on the model of the server.

A real Lua 5.1 (the version in Redis and Valkey, here through lupa) compiles each script once per
process and calls it with the conversions that the server documents: numbers lose their fraction,
`false` is nil, a table ends at its first nil.
https://redis.io/docs/latest/develop/interact/programmability/lua-api/
"""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha1
from typing import Any

from course.simulator.servers.redis.model import RedisModel
from course.simulator.servers.redis.replies import RedisError, Status

# The table `redis` for scripts.  Errors are raised from Lua, so that a script which ignores one
# stops as it does on the server.
PRELUDE = b"""
return function(python)
  local redis = {LOG_WARNING = 3, LOG_NOTICE = 2, LOG_VERBOSE = 1, LOG_DEBUG = 0}
  function redis.call(...)
    local failed, reply = python.call(...)
    if failed then error(reply, 0) end
    return reply
  end
  function redis.pcall(...)
    local failed, reply = python.call(...)
    if failed then return {err = reply} end
    return reply
  end
  function redis.status_reply(text) return {ok = text} end
  function redis.error_reply(text) return {err = text} end
  function redis.sha1hex(text) return python.sha1hex(text) end
  function redis.replicate_commands() return true end
  function redis.set_repl() end
  function redis.log() end
  return redis
end
"""
SHEBANG = re.compile(rb"\A#![^\n]*")


class ScriptEngine:
    """One Lua interpreter for all models of a process; `run` selects the model for a script."""

    def __init__(self) -> None:
        from lupa import lua51

        self._lua = lua51.LuaRuntime(
            encoding=None, register_eval=False, unpack_returned_tuples=True
        )
        self._lua_error = lua51.LuaError
        self._lua_type = lua51.lua_type
        self._model: RedisModel | None = None
        python = self._lua.table_from({b"call": self._call, b"sha1hex": _sha1hex})
        self._redis = self._lua.execute(PRELUDE)(python)
        self._compiled: dict[bytes, Any] = {}

    def run(self, model: RedisModel, script: bytes, keys: list[bytes], args: list[bytes]) -> Any:
        """Run a script on a model; return its reply, or `RedisError`."""
        function = self._compiled.get(script) or self._compile(script)
        table = self._lua.table_from
        self._model = model
        try:
            return self._reply(function(table(keys), table(args), self._redis))
        except self._lua_error as problem:
            raise RedisError(f"ERR {problem}") from problem
        finally:
            self._model = None

    def _compile(self, script: bytes) -> Any:
        # A first line that starts with #! is for the server; a comment keeps the line numbers.
        body = SHEBANG.sub(b"--", script)
        source = b"return function(KEYS, ARGV, redis) " + body + b"\nend"
        try:
            function = self._lua.execute(source)
        except self._lua_error as problem:
            raise RedisError(f"ERR Error compiling script: {problem}") from problem
        self._compiled[script] = function
        return function

    def _call(self, name: bytes, *args: Any) -> tuple[bool, Any]:
        model = self._model
        if model is None:
            raise RuntimeError("redis.call outside of a script")
        try:
            reply = model.execute(name, [_argument(value) for value in args])
        except RedisError as problem:
            return True, str(problem).encode()
        kind = type(reply)
        if kind is int or kind is bytes:
            return False, reply
        return False, self._to_lua(reply)

    def _to_lua(self, reply: Any) -> Any:
        if reply is None:
            return False
        if isinstance(reply, Status):
            return self._lua.table_from({b"ok": bytes(reply)})
        if isinstance(reply, list):
            return self._lua.table_from([self._to_lua(item) for item in reply])
        return reply

    def _reply(self, value: Any) -> Any:
        kind = type(value)
        if kind is bytes:
            return value
        if kind is bool:
            return 1 if value else None
        if kind is int or kind is float:
            return int(value)
        if value is None:
            return None
        if self._lua_type(value) != "table":
            raise RedisError("ERR a script can return numbers, strings, tables and booleans only")
        if value[b"ok"] is not None:
            return Status(value[b"ok"])
        if value[b"err"] is not None:
            raise RedisError(value[b"err"].decode())
        items: list[Any] = []
        while (item := value[len(items) + 1]) is not None:
            items.append(self._reply(item))
        return items


def _argument(value: Any) -> bytes:
    if type(value) is bytes:
        return value
    if type(value) is int:
        return b"%d" % value
    if type(value) is float:
        return b"%.17g" % value
    raise RedisError("ERR Lua redis lib command arguments must be strings or integers")


def _sha1hex(text: bytes) -> bytes:
    return sha1(text, usedforsecurity=False).hexdigest().encode()


@cache
def engine() -> ScriptEngine:
    """Return the process's interpreter, which keeps compiled scripts for later schedules."""
    return ScriptEngine()


def attach(model: RedisModel) -> None:
    """Enable the model to run scripts."""
    lua = engine()
    model.eval = lambda script, keys, args: lua.run(model, script, keys, args)
