"""A separate thread for a blocking function.

It does not use the loop's pool: a function that never returns would occupy a thread of the pool until no threads are left, and
would prevent the loop from closing after an abort.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, TypeVar

_T = TypeVar("_T")


async def run_in_thread(work: Callable[..., _T], /, *args: Any, **kwargs: Any) -> _T:
    """Call ``work`` in a new thread, in the context of the caller. An abandoned thread is not awaited.

    Raises:
        BaseException: The exception of ``work``; a StopIteration, which a coroutine cannot raise, becomes a RuntimeError.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_T] = loop.create_future()
    context = copy_context()

    def settle(value: _T | None, error: BaseException | None) -> None:
        if done.done():
            return  # abandoned
        if error is None:
            done.set_result(value)  # pyright: ignore[reportArgumentType]
        else:
            done.set_exception(error)

    def run() -> None:
        value, error = None, None
        try:
            value = context.run(work, *args, **kwargs)
        except StopIteration as stopped:
            error = RuntimeError(f"StopIteration: {stopped}")
            error.__cause__ = stopped
        except BaseException as raised:  # noqa: BLE001 - it is raised where the call was made
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed, so the result is not needed any more
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=run, name=getattr(work, "__name__", None), daemon=True).start()
    return await done
