import asyncio
from collections.abc import Awaitable, Callable

from dragoman.engine.health import Health, TrialLease
from dragoman.gateway.observability.shared_health import SharedHealthStore
from dragoman.gateway.store import Store
from dragoman.gateway.store.memory import MemoryStore
from tests.gateway.conftest import Clock
from tests.support.gateway.redis_server import RedisServer

Opened = Callable[[], Store]


def run(opened: Opened, work: Callable[[Store], Awaitable[None]]) -> None:
    async def main() -> None:
        store = opened()
        try:
            await work(store)
        finally:
            await store.aclose()

    asyncio.run(main())


class Gateway:
    """One of several gateways. Its monotonic clock started at its own time."""

    def __init__(self, store: Store, wall_clock: Clock, began: float) -> None:
        self._wall_clock, self._began = wall_clock, began
        self.shared = SharedHealthStore(store, clock=self.clock, wall_clock=wall_clock)
        self.health = Health(store=self.shared, clock=self.clock)

    def clock(self) -> float:
        return self._wall_clock.now - self._began


def test_another_gateway_adopts_the_start_and_the_end_of_a_cooldown(opened: Opened, clock: Clock) -> None:
    async def work(store: Store) -> None:
        one, other = Gateway(store, clock, 100.0), Gateway(store, clock, 5000.0)
        one.health.disable("aa/m", 60.0)
        await one.shared.sync()
        await other.shared.sync()
        assert other.health.admit("aa/m", other.clock()) is None
        one.health.enable("aa/m")
        await one.shared.sync()
        await other.shared.sync()
        assert other.health.admit("aa/m", other.clock()) == "healthy"

    run(opened, work)


def test_a_disabled_target_stays_disabled_after_a_success_at_another_gateway(clock: Clock) -> None:
    async def work(store: Store) -> None:
        one, other = Gateway(store, clock, 100.0), Gateway(store, clock, 5000.0)
        one.health.disable("aa/m", 60.0)
        for gateway in (one, other):
            await gateway.shared.sync()
        other.health.record_success("aa/m", 0.2)
        for gateway in (other, one):
            await gateway.shared.sync()
        assert [each.health.admit("aa/m", each.clock()) for each in (one, other)] == [None, None]

    run(MemoryStore, work)


def test_a_cooldown_that_ends_by_itself_is_tried_by_all_gateways(clock: Clock) -> None:
    async def work(store: Store) -> None:
        one, other = Gateway(store, clock, 100.0), Gateway(store, clock, 5000.0)
        one.health.disable("aa/m", 60.0)
        for gateway in (one, other):
            await gateway.shared.sync()
        clock.now += 61
        one.health.disable("bb/m", 60.0)
        for gateway in (one, other):
            await gateway.shared.sync()
        assert all(isinstance(each.health.admit("aa/m", each.clock()), TrialLease) for each in (one, other))
        assert other.health.admit("bb/m", other.clock()) is None

    run(MemoryStore, work)


def test_a_longer_local_cooldown_stays(clock: Clock) -> None:
    async def work(store: Store) -> None:
        one, other = Gateway(store, clock, 0.0), Gateway(store, clock, 0.0)
        other.health.disable("aa/m", 600.0)
        one.health.disable("aa/m", 60.0)
        await one.shared.sync()
        await other.shared.sync()
        clock.now += 61
        await one.shared.sync()
        assert other.health.admit("aa/m", other.clock()) is None
        assert one.health.admit("aa/m", one.clock()) is None

    run(MemoryStore, work)


def test_no_cooldown_is_lost_if_gateways_write_at_once(redis: RedisServer, clock: Clock) -> None:
    from dragoman.gateway.store.redis import RedisStore

    async def work(store: Store) -> None:
        gateways = [Gateway(store, clock, 100.0 * n) for n in range(10)]
        for n, gateway in enumerate(gateways):
            gateway.health.disable(f"aa/{n}", 60.0)
        await asyncio.gather(*(gateway.shared.sync() for gateway in gateways))
        await gateways[0].shared.sync()
        assert len(gateways[0].health.snapshot()) == 10

    run(lambda: RedisStore(redis.url, prefix="cooldowns:"), work)


def test_nothing_is_written_if_nothing_changed(clock: Clock) -> None:
    async def work(store: Store) -> None:
        one = Gateway(store, clock, 0.0)
        one.health.disable("aa/m", 60.0)
        await one.shared.sync()
        before = await store.read("health")
        await one.shared.sync()
        assert await store.read("health") == before

    run(MemoryStore, work)


def test_a_cooldown_that_version_0_1_wrote_is_adopted(clock: Clock) -> None:
    async def work(store: Store) -> None:
        value = b'{"aa/m":{"until":%d,"benches":2,"reason":"Overloaded","by_operator":false}}' % (clock.now + 60)
        await store.write("health", value, ttl=None)
        gateway = Gateway(store, clock, 100.0)
        await gateway.shared.sync()
        health = gateway.shared.read("aa/m")
        assert (health.state, health.cooldowns, health.reason) == ("cooldown", 2, "Overloaded")

    run(MemoryStore, work)
