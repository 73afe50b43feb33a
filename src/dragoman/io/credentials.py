"""Credentials whose key must be fetched: functions of the user, and the base for those of clouds.

A key is cached, and fetched again shortly before it expires or after a server rejected it. Calls that need it at the
same time, in any threads and event loops, share one fetch. A function runs in a thread of its own, so that neither an
event loop nor a deadline waits for it; a coroutine function runs in the event loop of the first async caller.
"""

import asyncio
import inspect
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for_futures
from importlib import import_module
from typing import Any, Generic, Protocol, TypeVar

from msgspec.structs import replace

from dragoman.errors import AuthFailed, DragomanError, SetupError, TimedOut
from dragoman.http import HttpRequest
from dragoman.io.stopper import Stopper
from dragoman.targets.credentials import SigningRequest, Token
from dragoman.targets.provider import clean_key
from dragoman.targets.target import Target

EARLY = 120.0
"""Seconds before its end at which a key is fetched again; a fifth of its lifetime if that is shorter."""
PLAIN_LIFETIME = 60.0
"""Seconds for which a key without a known end is used before its function is called again."""
RETRY = 10.0
"""Seconds until the next fetch after one that failed while the old key is still valid."""


class Secret(Protocol):
    """A key, or a set of keys, that may expire."""

    @property
    def value(self) -> str:
        """The key."""
        ...

    @property
    def expires_at(self) -> float | None:
        """Seconds since 1970."""
        ...


S = TypeVar("S", bound=Secret)


class CachedCredential(ABC, Generic[S]):
    """Fetches a key when it is needed, and signs with it."""

    source: str
    is_async: bool = False
    """Whether `fetch` is a coroutine function."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._secret: S | None = None
        self._refresh_at: float | None = None
        self._pending: Future[S] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @abstractmethod
    def fetch(self) -> Any:
        """The key, or an awaitable of it."""

    @abstractmethod
    def apply(self, http: HttpRequest, secret: S, target: Target, /) -> HttpRequest:
        """The request, signed with the key."""

    def forget(self) -> None:
        """Drop what `fetch` remembers: a server rejected the last key."""

    def read(self, value: Any) -> S:
        """The key in a result of `fetch`."""
        secret: S = value
        return secret

    def sign(self, signing: SigningRequest, /) -> HttpRequest:
        """The signed request, blocking."""
        deadline = None if signing.timeout is None else time.monotonic() + signing.timeout
        while True:
            secret, pending = self._begin(signing.rejected, None)
            if pending is not None:
                _wait(pending, _remaining(deadline), getattr(signing, "stopper", None))
                secret = self._take(pending, signing)
            if secret is not None:
                return self.apply(signing.request, secret, signing.target)

    async def asign(self, signing: SigningRequest, /) -> HttpRequest:
        """The signed request, async."""
        deadline = None if signing.timeout is None else time.monotonic() + signing.timeout
        while True:
            secret, pending = self._begin(signing.rejected, asyncio.get_running_loop())
            if pending is not None:
                # Unlike wait_for, this leaves the shared fetch alone if the caller is cancelled.
                shared = asyncio.wrap_future(pending)
                shared.add_done_callback(lambda done: done.cancelled() or done.exception())
                await asyncio.wait(
                    [shared], timeout=None if deadline is None else max(0.0, deadline - time.monotonic())
                )
                secret = self._take(pending, signing)
            if secret is not None:
                return self.apply(signing.request, secret, signing.target)

    def _begin(self, rejected: str | None, loop: asyncio.AbstractEventLoop | None) -> tuple[S | None, Future[S] | None]:
        """The cached key, or the fetch to wait for."""
        with self._lock:
            secret = self._secret
            is_fresh = self._refresh_at is None or time.time() < self._refresh_at
            if secret is not None and secret.value != rejected and is_fresh:
                return secret, None
            pending = self._pending
            if pending is None or pending.done() or (self._loop is not None and self._loop.is_closed()):
                if secret is not None and secret.value == rejected:
                    self.forget()
                pending = self._pending = self._start(loop)
            return None, pending

    def _start(self, loop: asyncio.AbstractEventLoop | None) -> Future[S]:
        if self.is_async and loop is not None:
            self._loop = loop
            return asyncio.run_coroutine_threadsafe(self._afetch(), loop)
        self._loop = None
        # A pool of its own: the future has the error of any kind, and no other work waits for a slow function.
        pool = ThreadPoolExecutor(1, thread_name_prefix="dragoman-credential")
        try:
            return pool.submit(self._fetch)
        finally:
            pool.shutdown(wait=False)

    def _fetch(self) -> S:
        value = self.fetch()
        return self._store(asyncio.run(_result(value)) if inspect.isawaitable(value) else value)

    async def _afetch(self) -> S:
        return self._store(await self.fetch())

    def _store(self, value: Any) -> S:
        secret, now = self.read(value), time.time()
        with self._lock:
            self._secret = secret
            self._refresh_at = None
            if secret.expires_at is not None:
                lifetime = secret.expires_at - now
                self._refresh_at = secret.expires_at - min(EARLY, max(0.0, lifetime / 5))
        return secret

    def _take(self, pending: "Future[S]", signing: SigningRequest) -> S | None:
        """The key of a fetch; None if it was cancelled with its event loop, and another one must start."""
        if not pending.done():
            raise TimedOut(f"the deadline of the call passed while waiting for {self.source}", count_failure=False)
        try:
            error = pending.exception()
        except CancelledError:
            return None
        if error is None:
            return pending.result()
        with self._lock:
            secret, now = self._secret, time.time()
            if secret is not None and secret.value != signing.rejected and now < (secret.expires_at or now + 1):
                self._refresh_at = now + RETRY
                return secret
        # The message of a foreign error is not shown: it may have a key.
        why = str(error) if isinstance(error, DragomanError | SetupError) else type(error).__name__
        raise AuthFailed(f"no key from {self.source}: {why}", fail_over=True, count_failure=False) from error

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.source})"


def import_libraries(*names: str, missing: str) -> list[Any]:
    """Modules of an extra; AuthFailed with a message if one is missing."""
    try:
        return [import_module(name) for name in names]
    except ImportError:
        raise AuthFailed(missing) from None


def _wait(pending: "Future[Any]", seconds: float | None, stopper: Stopper | None) -> None:
    """Wait for a fetch. A stopper ends the wait, and only the wait: others may need the key."""
    if stopper is None:
        wait_for_futures([pending], seconds)
        return
    stopped: Future[None] = Future()

    def stop() -> None:  # it may be called more than once
        if not stopped.done():
            stopped.set_result(None)

    stopper.attach(stop)
    try:
        wait_for_futures([pending, stopped], seconds, FIRST_COMPLETED)
    finally:
        stopper.detach()
    if stopper.is_stopped:
        raise stopper.error


def _remaining(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


async def _result(value: Awaitable[Any]) -> Any:
    return await value


class KeyFunction(CachedCredential[Token]):
    """A function of the user, sync or async, that returns a key: a str, or a `Token` that says when it expires."""

    source = "a function"

    def __init__(self, function: Callable[[], Any], /) -> None:
        super().__init__()
        self._function = function
        self.is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - the method of a callable object
        )

    def fetch(self) -> Any:
        return self._function()

    def read(self, value: Any) -> Token:
        """A str is used for a minute."""
        key = clean_key(value.value if isinstance(value, Token) else value, "the result of api_key")
        if key is None:
            raise AuthFailed("the result of api_key is empty")
        expires_at = value.expires_at if isinstance(value, Token) else time.time() + PLAIN_LIFETIME
        return Token(value=key, expires_at=expires_at)

    def apply(self, http: HttpRequest, secret: Token, target: Target, /) -> HttpRequest:
        """The request with the key in the target's header."""
        headers = replace(target, api_key=secret.value).auth_headers()
        return replace(http, headers={**headers, **http.headers}, secret=secret.value)
