"""Alerts to the operator by a webhook: a budget is nearly or fully used, a target fails.

Gateways that share a store send each alert once: the first that writes its name into the store sends it.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeAlias

import msgspec

from dragoman.engine.health import CooldownStarted
from dragoman.errors import StoreDown
from dragoman.gateway.accounting.quotas import Limit, OverLimit, QuotaReservation
from dragoman.gateway.accounting.usage import error_type
from dragoman.gateway.store import Store
from dragoman.gateway.store.base import NANODOLLARS, CounterLevel, PeriodCounter
from dragoman.gateway.webhooks import Webhook, Webhooks, check_webhook_url

MAX_KNOWN = 10_000
"""Alerts that a process remembers to have sent."""
Share: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=1)]


class AlertSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The table [alerts]."""

    url: str
    """Where alerts are sent, as JSON with a `text`, which Slack and others show."""
    secret: str | None = None
    """Signs the messages."""
    budgets: tuple[Share, ...] = (0.8, 1.0)
    """Parts of a budget, such as 0.8. An alert is sent as soon as so much of it is used."""
    failures: bool = True
    """Whether an alert is sent when a target is put on cooldown."""
    interval: Annotated[float, msgspec.Meta(gt=0, le=86_400, title="seconds")] = 300.0
    """Seconds in which the same target is reported once."""

    def __post_init__(self) -> None:
        check_webhook_url(self.url)

    def __repr__(self) -> str:
        # Without the URL, which may have a token.
        return "AlertSettings()"


class Alerts:
    """Sends alerts."""

    def __init__(
        self, settings: AlertSettings, store: Store, webhooks: Webhooks, /, *, clock: Callable[[], float] = time.time
    ) -> None:
        self.settings = settings
        self._store = store
        self._webhooks = webhooks
        self._webhook = Webhook(url=settings.url, secret=settings.secret)
        self._clock = clock
        self._sent: dict[str, float] = {}
        """By name: until when the alert is not sent again."""
        self._tasks: set[asyncio.Task[None]] = set()

    def check_budgets(self, reservation: QuotaReservation, /) -> None:
        """Send an alert for each budget whose use has passed one of the parts."""
        for limit, level in zip(reservation.limits, reservation.levels, strict=False):
            charge = limit.charge
            if not isinstance(charge, PeriodCounter) or not charge.limit:
                continue
            passed = [share for share in self.settings.budgets if level.used >= share * charge.limit]
            if passed:
                self._send_once(
                    f"{charge.key}:{max(passed):g}",
                    charge.ends,
                    _budget_alert(limit, level),
                )

    def request_refused(self, error: OverLimit, /) -> None:
        """Send an alert if a budget refuses requests, once in its period."""
        for limit, level in error.full:
            charge = limit.charge
            if isinstance(charge, PeriodCounter) and charge.limit:
                message = _budget_alert(limit, level)
                text = f"{message['text']}; requests are refused"
                self._send_once(f"{charge.key}:refused", charge.ends, {**message, "refused": True, "text": text})

    def target_failed(self, cooldown: CooldownStarted, /) -> None:
        """Send an alert for a target that is put on cooldown."""
        if not self.settings.failures:
            return
        why = error_type(cooldown.why)
        message = {
            "alert": "target",
            "target": cooldown.target,
            "error": why,
            "seconds": round(cooldown.seconds, 1),
            "text": f"{cooldown.target} fails ({why}); it is on cooldown for {cooldown.seconds:.0f} s",
        }
        self._send_once(f"target:{cooldown.target}", self._clock() + self.settings.interval, message)

    def _send_once(self, name: str, until: float, message: dict[str, Any]) -> None:
        now = self._clock()
        if self._sent.get(name, 0.0) > now:
            return
        if len(self._sent) >= MAX_KNOWN:
            self._sent = {name: end for name, end in self._sent.items() if end > now}
        self._sent[name] = until
        task = asyncio.get_running_loop().create_task(self._claim_and_send(name, until - now, message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _claim_and_send(self, name: str, seconds: float, message: dict[str, Any]) -> None:
        try:
            is_first = await self._store.write(f"alert:{name}", b"1", ttl=max(1.0, seconds), expects=None) is not None
        except StoreDown:
            is_first = True  # better twice than never
        if is_first:
            self._webhooks.send(self._webhook, {**message, "time": self._clock()})

    async def flush(self) -> None:
        """Wait until all alerts are in the queue of webhooks."""
        pending: Sequence[asyncio.Task[None]] = tuple(self._tasks)
        if pending:
            await asyncio.wait(pending)


def _budget_alert(limit: Limit, level: CounterLevel) -> dict[str, Any]:
    is_money = limit.unit == "dollars"
    amounts = [amount / NANODOLLARS if is_money else amount for amount in (level.used, limit.charge.limit)]
    shown = [f"${amount:,.2f}" if is_money else f"{amount:,} tokens" for amount in amounts]
    return {
        "alert": "budget",
        "holder": limit.holder,
        "period": limit.per,
        "unit": limit.unit,
        "used": amounts[0],
        "limit": amounts[1],
        "text": f"{limit.holder} has used {shown[0]} of {shown[1]} per {limit.per} ({amounts[0] / amounts[1]:.0%})",
    }
