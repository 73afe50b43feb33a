import asyncio
from collections.abc import Awaitable, Callable, Sequence

from dragoman.engine.target_load import SLOT_CHECK, LimitState, SharedSlot
from dragoman.errors import StoreDown
from dragoman.gateway.accounting.deployment_limits import StoredDeploymentLimits
from dragoman.gateway.accounting.quotas import Quotas, WhenDown
from dragoman.gateway.store import Store
from dragoman.gateway.store.base import Charge, ReserveOutcome
from dragoman.gateway.store.memory import MemoryStore
from dragoman.targets.pools import DeploymentLimits
from dragoman.targets.target import Target
from tests.gateway.conftest import Clock
from tests.support.plans import target

Opened = Callable[[], Store]


def limited(**limits: int) -> Target:
    return target("aa/m", deployment_limits=DeploymentLimits(**limits))


async def room(limits: StoredDeploymentLimits, to: Target, tokens: int = 0) -> SharedSlot:
    slot = await limits.claim(to, tokens)
    assert slot is not None
    assert not isinstance(slot, LimitState)
    return slot


def run(opened: Opened, work: Callable[[StoredDeploymentLimits, Quotas], Awaitable[None]]) -> None:
    async def main() -> None:
        store = opened()
        quotas = Quotas(store)
        try:
            await work(StoredDeploymentLimits(quotas), quotas)
        finally:
            await quotas.aclose()
            await store.aclose()

    asyncio.run(main())


def test_requests_and_tokens_of_a_minute_are_limited(opened: Opened, clock: Clock) -> None:
    async def work(limits: StoredDeploymentLimits, quotas: Quotas) -> None:
        to = limited(requests_per_minute=2, tokens_per_minute=100)
        slot = await room(limits, to, 500)  # more than the limit: it may be sent alone
        full = await limits.claim(to, 1)
        assert isinstance(full, LimitState)
        assert full.reason.startswith("its limit of 100 tokens per minute is used up for ")
        slot.end(30)
        await quotas.aclose()
        (await room(limits, to, 70)).end(None)
        full = await limits.claim(to, 1)
        assert isinstance(full, LimitState)
        assert 59 < full.wait <= 61

    run(opened, work)


def test_requests_in_progress_are_limited(opened: Opened) -> None:
    async def work(limits: StoredDeploymentLimits, quotas: Quotas) -> None:
        to = limited(concurrent=1)
        slot = await room(limits, to)
        assert await limits.claim(to, 0) == LimitState(SLOT_CHECK, "it has 1 requests in progress, which is its limit")
        slot.end(0)
        await quotas.aclose()
        (await room(limits, to)).end(0)

    run(opened, work)


class DownStore(MemoryStore):
    is_shared = True

    async def reserve(self, charges: Sequence[Charge], /) -> ReserveOutcome:
        raise StoreDown("down")


def test_while_the_store_is_down_each_process_counts_for_itself_or_nothing_is_sent() -> None:
    async def claim(rates: WhenDown) -> object:
        return await StoredDeploymentLimits(Quotas(DownStore(), rates=rates)).claim(limited(concurrent=1), 0)

    assert asyncio.run(claim("open")) is None
    refused = asyncio.run(claim("closed"))
    assert isinstance(refused, LimitState)
    assert "the store is down" in refused.reason
