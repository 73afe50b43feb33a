import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dragoman.engine.routing import weighted_order
from dragoman.errors import StoreDown
from dragoman.gateway.conversations import ConversationState, ConversationStore, ResponseStore
from dragoman.gateway.store import Store, StoredValue, open_store
from dragoman.gateway.store.memory import MemoryStore
from dragoman.gateway.stored_values import DAY
from dragoman.gateway.tiers import effective_tier, is_higher, put_conversation_first
from dragoman.types import Finish, Response, assistant, user
from dragoman.wires.common.server_endpoints import StoredResponse
from tests.gateway.conftest import Clock
from tests.support.gateway.dialects import app_of, post, send_request
from tests.support.gateway.live import PATIENCE
from tests.support.gateway.redis_server import RedisServer
from tests.support.plans import target

Opened = Callable[[], Store]


def run(opened: Opened, work: Callable[[Store], Awaitable[None]]) -> None:
    async def main() -> None:
        store = opened()
        try:
            await work(store)
        finally:
            await store.aclose()

    asyncio.run(main())


async def update(
    conversations: ConversationStore,
    to: str,
    *,
    tier: str | None = None,
    before: ConversationState | None = None,
    owner: str = "team",
    ids: dict[str, str] | None = None,
) -> ConversationState:
    new = ConversationState(target=to, tier=tier, ids=ids or {})
    return await conversations.update(owner, "c1", new, before=before)


def test_a_conversation_stays_where_it_was_answered(opened: Opened) -> None:
    async def work(store: Store) -> None:
        conversations = ConversationStore(store)
        assert await conversations.load("team", "c1") is None
        await update(conversations, "a/x", tier="simple", ids={"call_1": "toolu_1"})
        assert await conversations.load("team", "c1") == ConversationState(
            target="a/x", tier="simple", ids={"call_1": "toolu_1"}
        )

    run(opened, work)


def test_a_session_is_its_keys_own(opened: Opened) -> None:
    async def work(store: Store) -> None:
        conversations = ConversationStore(store)
        await update(conversations, "a/x")
        await update(conversations, "b/y", owner="other")
        found = [await conversations.load(owner, "c1") for owner in ("team", "other", None)]
        assert [state and state.target for state in found] == ["a/x", "b/y", None]

    run(opened, work)


def test_a_session_lasts_a_day_from_its_last_use(clock: Clock) -> None:
    async def work(store: Store) -> None:
        conversations = ConversationStore(store)
        first = await update(conversations, "a/x")
        clock.now += DAY - 1
        await update(conversations, "a/x", before=first)
        clock.now += DAY - 1
        assert await conversations.load("team", "c1") is not None
        clock.now += 2
        assert await conversations.load("team", "c1") is None

    run(lambda: MemoryStore(clock=clock), work)


def test_a_session_follows_when_its_target_was_benched() -> None:
    async def work(store: Store) -> None:
        conversations = ConversationStore(store)
        before = await update(conversations, "a/x")
        assert (await update(conversations, "b/y", before=before)).target == "b/y"

    run(MemoryStore, work)


def test_a_session_that_another_moved_stays_there() -> None:
    async def work(store: Store) -> None:
        conversations = ConversationStore(store)
        before = await update(conversations, "a/x")
        await update(conversations, "b/y", before=before, ids={"call_1": "1"})
        assert await update(conversations, "c/z", before=before, ids={"call_2": "2"}) == ConversationState(
            target="b/y", ids={"call_1": "1", "call_2": "2"}
        )

    run(MemoryStore, work)


def test_a_session_moves_up_and_not_down() -> None:
    async def work(store: Store) -> None:
        conversations = ConversationStore(store)
        low = await update(conversations, "a/x", tier="simple")
        high = await update(conversations, "a/big", tier="complex", before=low)
        assert high.target == "a/big"
        late = await update(conversations, "a/x", tier="simple", before=low)
        assert (late.target, late.tier) == ("a/big", "complex")
        assert (await update(conversations, "b/y", tier="simple", before=high)).tier == "complex"

    run(MemoryStore, work)


def test_fifty_at_once_lose_no_id_and_agree_on_the_target(opened: Opened) -> None:
    async def work(store: Store) -> None:
        conversations = ConversationStore(store)
        states = await asyncio.gather(*(update(conversations, f"a/{n}", ids={f"call_{n}": str(n)}) for n in range(50)))
        found = await conversations.load("team", "c1")
        assert found is not None
        assert found.ids == {f"call_{n}": str(n) for n in range(50)}
        assert {state.target for state in states} == {found.target}

    run(opened, work)


def test_two_gateways_share_a_conversation(redis: RedisServer) -> None:
    async def work(store: Store) -> None:
        other = open_store(redis.url)
        both = [ConversationStore(store), ConversationStore(other)]
        updates = [update(both[n % 2], f"a/{n}", owner="shared", ids={f"call_{n}": str(n)}) for n in range(50)]
        states = await asyncio.gather(*updates)
        found = [await conversations.load("shared", "c1") for conversations in both]
        await other.aclose()
        assert found[0] is not None
        assert found[0] == found[1]
        assert len(found[0].ids) == 50
        assert {state.target for state in states} == {found[0].target}

    run(lambda: open_store(redis.url), work)


def test_a_session_is_there_again_when_redis_is() -> None:
    server = RedisServer(keeps=True)

    async def work(store: Store) -> None:
        conversations = ConversationStore(store)
        state = await update(conversations, "a/x", ids={"call_1": "1"})
        server.kill()
        with pytest.raises(StoreDown):
            await conversations.load("team", "c1")
        with pytest.raises(StoreDown):
            await update(conversations, "b/y", before=state)
        server.start()
        async with asyncio.timeout(PATIENCE):
            while await loaded(conversations) is None:  # noqa: ASYNC110 - Redis tells nobody
                await asyncio.sleep(0)
        assert await loaded(conversations) == state

    try:
        server.start()
        run(lambda: open_store(server.url), work)
    finally:
        server.stop()


async def loaded(conversations: ConversationStore) -> ConversationState | None:
    try:
        return await conversations.load("team", "c1")
    except StoreDown:
        return None


def test_a_session_keeps_its_first_ids_because_old_ids_must_not_change() -> None:
    async def work(store: Store) -> None:
        conversations = ConversationStore(store)
        state = await update(conversations, "a/x")
        for n in range(3):
            state = await update(conversations, "a/x", before=state, ids={f"call_{n}_{i}": "" for i in range(500)})
        assert len(state.ids) == 1000
        assert "call_0_0" in state.ids
        assert "call_2_0" not in state.ids

    run(MemoryStore, work)


def test_a_stored_response_belongs_to_its_key_and_can_be_deleted(opened: Opened) -> None:
    response = Response(id="resp_1", message=assistant("Hello!"), finish=Finish(reason="stop"))
    stored = StoredResponse(messages=(user("hi"),), response=response)

    async def work(store: Store) -> None:
        responses = ResponseStore(store)
        await responses.save("team", "resp_1", stored)
        assert await responses.load("team", "resp_1") == stored
        assert await responses.load("other", "resp_1") is None
        assert not await responses.delete("other", "resp_1")
        assert await responses.delete("team", "resp_1")
        assert await responses.load("team", "resp_1") is None

    run(opened, work)


def test_a_response_that_version_0_1_stored_can_be_loaded() -> None:
    class OldStore(MemoryStore):
        async def read(self, key: str, /) -> StoredValue | None:
            finish, notice = '{"reason":"stop"}', '{"kind":"told","what":"max_tokens","why":"anthropic"}'
            response = f'{{"message":{{"role":"assistant"}},"finish":{finish},"notices":[{notice}]}}'
            return StoredValue(f'{{"messages":[],"response":{response},"request":{{}}}}'.encode(), "v1")

    async def work(store: Store) -> None:
        stored = await ResponseStore(store).load("team", "resp_1")
        assert stored is not None
        assert [notice.kind for notice in stored.response.notices] == ["info"]

    run(OldStore, work)


# Tiers ----------------------------------------------------------------------------------------------------------------

SMALL, BIG, HUGE = target("aa/small"), target("bb/big"), target("aa/huge")


@pytest.mark.parametrize(
    ("wanted", "pinned", "expected"),
    [
        ("simple", None, "simple"),
        ("simple", "complex", "complex"),
        ("complex", "simple", "complex"),
        ("mine", "complex", "mine"),
    ],
)
def test_a_session_is_not_moved_down(wanted: str, pinned: str | None, expected: str) -> None:
    assert effective_tier(wanted, ConversationState(target="aa/small", tier=pinned)) == expected


def test_tiers_with_other_names_have_no_order() -> None:
    assert is_higher("complex", "simple")
    assert not is_higher("gold", "tin")
    assert not is_higher("tin", "gold")


def test_the_pinned_target_comes_first() -> None:
    assert put_conversation_first([SMALL, BIG, HUGE], ConversationState(target="aa/huge", tier="simple"), "simple") == [
        HUGE,
        SMALL,
        BIG,
    ]


def test_a_session_that_moves_up_prefers_its_provider() -> None:
    assert put_conversation_first([BIG, HUGE], ConversationState(target="aa/small", tier="simple"), "complex") == [
        HUGE,
        BIG,
    ]


def test_without_a_session_the_order_stays() -> None:
    assert put_conversation_first([BIG, HUGE], None) == [BIG, HUGE]


def test_a_target_of_twice_the_cost_comes_first_half_as_often() -> None:
    rng = random.Random(7)
    costs = {"aa/small": 0.2, "bb/big": 0.1}
    firsts = [weighted_order([SMALL, BIG], costs, [rng.random(), rng.random()])[0] for _ in range(9000)]
    assert 2850 < firsts.count(SMALL) < 3150


def test_requests_with_and_without_a_conversation_are_split_by_the_same_weights() -> None:
    other = '[providers.other]\nwire = "openai_chat"\nbase_url = "demo://local/v1"\nneeds_key = false\n'
    app = app_of(other + '[tiers.simple]\nmodels = { "demo/any" = 0.1, "other/any" = 1.0 }\n')

    async def share_of_the_cheap(number_of_requests: int, *, in_conversations: bool) -> float:
        random.seed(7)
        count = 0
        for number in range(number_of_requests):
            body: dict[str, Any] = {"tier": "simple", "messages": [{"role": "user", "content": "hi"}]}
            if in_conversations:
                body["conversation_id"] = f"c{number}"
            before = await send_request(app, post("/native/v1/chat/completions", json.dumps(body).encode()))
            count += before.headers["x-dragoman-target"] == "demo/any"
        return count / number_of_requests

    plain = asyncio.run(share_of_the_cheap(200, in_conversations=False))
    pinned = asyncio.run(share_of_the_cheap(200, in_conversations=True))
    assert plain == pytest.approx(10 / 11, abs=0.06)
    assert pinned == pytest.approx(10 / 11, abs=0.06)
