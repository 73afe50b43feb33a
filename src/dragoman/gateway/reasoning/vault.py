"""The secret of the tags, and the states that are too long for a tag or whose tags clients lose.

The secret is that of the config; otherwise it is made at the first start and kept in the store, which all workers and
later starts share. A store in memory ends with its process: then tags of an earlier start are not valid.
"""

import asyncio
from collections.abc import Callable
from hashlib import blake2b
from secrets import token_bytes

from dragoman.errors import StoreDown
from dragoman.gateway.reasoning.answer_positions import PositionFinder
from dragoman.gateway.reasoning.incoming import MAX_LOOKUPS, RequestTags
from dragoman.gateway.reasoning.outgoing import AnswerTagger
from dragoman.gateway.reasoning.places import (
    DIALECTS_THAT_LOSE_TAGS,
    DIALECTS_WITHOUT_TAGS,
    TAG_WRITERS,
    place_of_state,
)
from dragoman.gateway.reasoning.state import AnswerState, origin_of
from dragoman.gateway.reasoning.step_keys import StepKeys
from dragoman.gateway.reasoning.tag import TagKey
from dragoman.gateway.store import Store
from dragoman.targets.target import Target
from dragoman.types import Notice, Request, ToolCall

STORE_KEY = "reasoning-secret"
"""The key of the secret in the store."""
SECRET_SIZE = 32
LONG_TTL = 7 * 86400.0
"""Seconds for which a state that is too long for a tag is stored."""
STEP_TTL = 86400.0
"""Seconds for which the state of an answer with calls is stored for clients that lose tags."""
LOOKUP_STEP = 500
"""Answers that are left out at a time if there are more than `MAX_LOOKUPS`."""
MAX_READS = 32
"""Reads of the store at a time."""
_NOT_STORED = Notice(kind="dropped", what="reasoning state", why="the store is down, so later requests do without it")


class ReasoningVault:
    """Makes what tags answers and reads the tags of requests."""

    def __init__(self, store: Store, /, *, secret: str | None = None, process_secret: bytes | None = None) -> None:
        """`secret` is that of the config; `process_secret` is for a store that the workers do not share."""
        self._store = store
        self._secret = None if secret is None else blake2b(secret.encode(), digest_size=SECRET_SIZE).digest()
        self._fallback = process_secret or token_bytes(SECRET_SIZE)

    async def make_tagger(
        self,
        dialect: str,
        target: Target,
        owner: str | None,
        request: Request,
        /,
        *,
        parts_before: int = 0,
        losses: int = 0,
        returned: Callable[[ToolCall], ToolCall] | None = None,
    ) -> AnswerTagger | None:
        """What tags the answer of a target to `request`; None if its state needs no tags in this dialect.

        `parts_before`: the texts that were not tagged; `losses`: how many answers in the request lost their reasoning;
        `returned`: a call as the client will send it back, if that may differ.
        """
        place = place_of_state(dialect, target)
        if place is None:
            return None
        key = TagKey(await self._read_secret(), owner)
        return AnswerTagger(
            dialect,
            AnswerState(origin_of(target, key), (), PositionFinder(request.messages).position, losses),
            key,
            has_store=self._store.is_shared,
            has_tags=place == "tags",
            parts_before=parts_before,
            returned=returned,
        )

    async def read_tags(
        self, dialect: str, request: Request, targets: tuple[Target, ...], owner: str | None, /
    ) -> RequestTags | None:
        """The state of earlier answers in a request; None if there is none."""
        if dialect not in TAG_WRITERS or all(message.role != "assistant" for message in request.messages):
            return None
        key = TagKey(await self._read_secret(), owner)
        tags = RequestTags(dialect, request, key)
        names = list(dict.fromkeys(tags.stored_keys()))[:MAX_LOOKUPS]
        for name, data in zip(names, await self._read(names), strict=True):
            tags.add_stored(name, data)
        # Reads of the store take time, and targets of the client's own wire mostly need none of this.
        places = {place_of_state(dialect, target) for target in targets}
        if dialect in DIALECTS_THAT_LOSE_TAGS and places != {None}:
            await self._find_lost(tags, without_thinking=dialect not in DIALECTS_WITHOUT_TAGS and "tags" not in places)
        return tags or None

    async def store(self, tagger: AnswerTagger, request: Request, /, *, is_finished: bool) -> tuple[Notice, ...]:
        """Store what is not in the tags of an answer to `request`."""
        writes = [(name, data, LONG_TTL) for name, data in tagger.take_writes().items()]
        if is_finished and tagger.states:
            data = tagger.encode_states(tagger.states)
            names = StepKeys(tagger.key, tagger.dialect, request)
            keys = names.of(len(request.messages), tagger.calls, tagger.text)
            writes += [(name, data, STEP_TTL) for name in keys]
        try:
            for name, data, ttl in writes:
                await self._store.write(f"reasoning:{name}", data, ttl=ttl)
        except StoreDown:
            return (_NOT_STORED,)
        return ()

    async def _find_lost(self, tags: RequestTags, *, without_thinking: bool) -> None:
        """Read the state of answers whose tags the client lost."""
        lost_steps = [*tags.lost_steps(without_thinking=without_thinking).items()]
        # The oldest are left out in steps, so that the beginning of a long conversation rarely moves.
        lost = dict(lost_steps[max(0, -(-(len(lost_steps) - MAX_LOOKUPS) // LOOKUP_STEP)) * LOOKUP_STEP :])
        for choose in (0, 1):
            names = {index: names[choose] for index, names in lost.items() if choose < len(names)}
            for index, data in zip(names, await self._read([*names.values()]), strict=True):
                if data is not None:
                    tags.add_lost_step(index, data)
                    del lost[index]

    async def _read(self, names: list[str]) -> list[bytes | None]:
        states: list[bytes | None] = []
        for start in range(0, len(names), MAX_READS):
            states += await asyncio.gather(*map(self._read_one, names[start : start + MAX_READS]))
        return states

    async def _read_one(self, name: str) -> bytes | None:
        try:
            entry = await self._store.read(f"reasoning:{name}")
        except StoreDown:
            return None
        return None if entry is None else entry.value

    async def _read_secret(self) -> bytes:
        if self._secret is None and self._store.is_shared:
            try:
                self._secret = await self._shared_secret()
            except StoreDown:
                return self._fallback
        return self._secret or self._fallback

    async def _shared_secret(self) -> bytes:
        """The secret in the store; the first gateway makes it."""
        await self._store.write(STORE_KEY, self._fallback, ttl=None, expects=None)
        entry = await self._store.read(STORE_KEY)
        return self._fallback if entry is None else entry.value
