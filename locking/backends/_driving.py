"""The loops that execute operations written as steps without input or output.

An operation is a generator.  It yields what to do, and receives what came of it, or the error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from inspect import isgenerator
from typing import Any, TypeVar

T = TypeVar("T")

_BACKGROUND: set[asyncio.Task[Any]] = set()
"""What goes on without its caller; asyncio itself keeps tasks weakly."""


def drive(execute: Callable[[Any], Any], steps: Generator[Any, Any, T]) -> T:
    """Execute the steps; return their result."""
    try:
        return _drive(execute, steps)
    except BaseException as error:
        if isgenerator(steps) and steps.gi_frame is None:
            raise
        return _drive(execute, steps, error)  # it was interrupted between two steps


def _drive(
    execute: Callable[[Any], Any],
    steps: Generator[Any, Any, T],
    error: BaseException | None = None,
) -> T:
    try:
        step = next(steps) if error is None else steps.throw(error)
        while True:
            try:
                result = execute(step)
            except BaseException as problem:  # noqa: BLE001 - the steps decide what to do
                step = steps.throw(problem)
            else:
                step = steps.send(result)
    except StopIteration as done:
        value: T = done.value
        return value
    finally:
        error = None


async def drive_async(execute: Callable[[Any], Awaitable[Any]], steps: Generator[Any, Any, T]) -> T:
    """Execute the steps; return their result.

    What they still do after a cancellation is not interrupted by another one.
    """
    try:
        step = next(steps)
    except StopIteration as done:
        value: T = done.value
        return value
    return await _drive_async(execute, steps, step)


async def _drive_async(
    execute: Callable[[Any], Awaitable[Any]], steps: Generator[Any, Any, T], step: Any
) -> T:
    try:
        while True:
            try:
                result = await execute(step)
            except asyncio.CancelledError as cancelled:
                step = steps.throw(cancelled)
                break
            except Exception as problem:  # noqa: BLE001 - the steps decide what to do
                step = steps.throw(problem)
            else:
                step = steps.send(result)
    except StopIteration as done:
        value: T = done.value
        return value
    return await asyncio.shield(in_background(_drive_async(execute, steps, step)))


def in_background(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Run something that nobody may wait for."""
    task = asyncio.create_task(work)
    _BACKGROUND.add(task)
    task.add_done_callback(_BACKGROUND.discard)
    return task


def acquires_alone(task: asyncio.Task[Any] | None, code: object) -> bool:
    """Return whether a task only runs the coroutine with that code, for whoever awaits it.

    `asyncio.wait_for`, `gather` and `create_task` make such tasks.
    """
    return getattr(task and task.get_coro(), "cr_code", None) is code
