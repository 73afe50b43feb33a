"""One request on its way through the gateway, and what is known of it so far."""

import secrets
from collections.abc import Sequence
from itertools import count
from os import getpid

from dragoman.gateway.accounting.accounting import RequestRecord
from dragoman.gateway.accounting.quotas import Headers
from dragoman.gateway.auth.api_keys import Key
from dragoman.gateway.auth.authenticate import check_model, check_name
from dragoman.gateway.observability.tracing import Operation
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.server.replies import request_id
from dragoman.gateway.store.base import UsageRow
from dragoman.http import HttpRequest
from dragoman.targets.target import Target
from dragoman.types import Attempt, Notice, Request
from dragoman.wires.base import Wire


class _Ids:
    """Ids of requests: one throw of the dice a process, and a count."""

    def __init__(self) -> None:
        self._process = 0
        self._start = ""
        self._count = count()

    def fresh(self) -> str:
        if self._process != getpid():
            self._process, self._start = getpid(), secrets.token_hex(8)
        return f"req_{self._start}{next(self._count):08x}"


fresh_id = _Ids().fresh


class RequestContext:
    """It keeps the set-up that it began with, whatever is reloaded meanwhile.

    >>> from dragoman.gateway.config import Config
    >>> RequestContext(Runtime(Config(), {}), HttpRequest(method="GET", path="/health")).owner is None
    True
    """

    __slots__ = (
        "account",
        "attempts",
        "http",
        "id",
        "is_counted",
        "key",
        "model",
        "notices",
        "runtime",
        "tier",
        "wire",
    )

    def __init__(self, runtime: Runtime, http: HttpRequest, /) -> None:
        self.runtime = runtime
        self.http = http
        self.id = request_id(http.headers, fresh_id())
        self.wire: Wire | None = None
        """The dialect of the client, once it is known."""
        self.key: Key | None = None
        self.model = ""
        """What was asked for, by the name that the client said."""
        self.tier: str | None = None
        self.attempts = 0
        self.is_counted = False
        """Whether the books know of it."""
        self.notices: tuple[Notice, ...] = ()
        """What the gateway itself left out or changed."""
        self.account: RequestRecord | None = None
        """What is kept of it, once it may go on."""

    def name(self, model: str, /) -> None:
        """Note what is asked for, where that is a name and its key may ask for it."""
        check_name(model)
        self.model = model
        check_model(self.key, model)

    async def open(
        self,
        request: Request,
        targets: Sequence[Target],
        operation: Operation = "chat",
        /,
        *,
        conversation: str | None = None,
    ) -> RequestRecord:
        """Ask its key's limits whether it may go on."""
        self.is_counted = True
        self.account = await self.runtime.accounting.open(
            self._row,
            model=self.model,
            request=request,
            key=self.key,
            dialect=self._dialect,
            targets=targets,
            answer_tokens=self.runtime.config.gateway.answer_tokens,
            headers=self.http.headers,
            operation=operation,
            conversation=conversation,
        )
        return self.account

    async def limit_headers(self) -> Headers:
        """What the client is told of its limits, wherever its key is known."""
        if self.account is not None:
            return self.account.headers
        if self.key is None or not self.key.is_limited:
            return ()
        return await self.runtime.accounting.limits.limit_headers(self.key)

    def as_row(self) -> UsageRow:
        """What is known of it, where it never began."""
        return self.runtime.accounting.row(self._row, model=self.model, key=self.key, dialect=self._dialect)

    @property
    def _row(self) -> str:
        """The id of its row in the ledger: clients may say the same id twice."""
        told = self.http.headers.get("x-request-id")
        return self.id if told != self.id else f"{self.id}~{fresh_id()}"

    @property
    def _dialect(self) -> str | None:
        return None if self.wire is None else self.wire.name

    @property
    def owner(self) -> str | None:
        """Whose sessions and responses these are."""
        return None if self.key is None else self.key.id

    def observe(self, what: object, /) -> None:
        """Count those who were asked."""
        if isinstance(what, Attempt) and what.outcome != "skipped":
            self.attempts += 1
