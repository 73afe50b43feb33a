"""What becomes of tags that are lost, changed or old, and of state that is long: a notice, and never an error."""

import asyncio
import json
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman import wires
from dragoman.errors import Overloaded, StoreDown
from dragoman.gateway.app import App
from dragoman.gateway.reasoning.outgoing import MAX_INLINE
from dragoman.gateway.reasoning.places import CHAT, DIALECTS_WITHOUT_TAGS, find_tags
from dragoman.gateway.reasoning.state import call_digest
from dragoman.testing import Scripted
from dragoman.types import Message, Opaque, Part, Request, Text, Thinking, ToolCall, assistant, user
from tests.support.gateway.dialects import post, send_blocking
from tests.support.gateway.loops import STEPS, Client, answer, gateway, received

TAGGED = [dialect for dialect in wires.NAMES if dialect not in DIALECTS_WITHOUT_TAGS]
each_dialect = pytest.mark.parametrize("dialect", TAGGED)
SIGNED = "bedrock"
"""A wire that is no client's dialect in the tests below."""


def first_turn(
    dialect: str, provider: str = SIGNED, *, stream: bool = False, more: str = ""
) -> tuple[Client, Scripted]:
    """A client that has the first answer, and is about to go on."""
    app, script = gateway(provider, more=more)
    script.add(answer(*STEPS[provider]), "At six.", "At seven.")
    client = Client(app, dialect, f"up_{provider}/m", stream=stream)
    client.follow(client.send())
    return client, script


def thinking_of(script: Scripted) -> list[Part]:
    return [part for part in received(script) if isinstance(part, Thinking)]


def change(part: Part, old: str, new: str) -> Part:
    """A part with another text in its `extra`."""
    if isinstance(part, Opaque):
        return part
    return replace(part, extra=json.loads(json.dumps(part.extra).replace(old, new)))


def with_history(client: Client, *parts: Part) -> None:
    messages = [*client.request.messages]
    messages[1] = Message(role="assistant", parts=parts)
    client.request = replace(client.request, messages=tuple(messages))


def history(client: Client) -> tuple[Part, ...]:
    return client.request.messages[1].parts


# Tags that cannot be used ---------------------------------------------------------------------------------------------


@each_dialect
@pytest.mark.parametrize("new", ["dragomanAAAA", "dragoman!", "dragomanEEEE", "dragoman_-"])
def test_a_changed_tag_is_ignored_with_a_notice(dialect: str, new: str) -> None:
    client, script = first_turn(dialect)
    if dialect == SIGNED:
        return
    with_history(client, *(change(part, "dragoman", new) for part in history(client)))
    client.send()
    assert thinking_of(script) == []
    assert b"c2lnbmVk" not in script.http[-1].body
    assert any("its tag or text was changed" in notice for notice in client.notices)


@pytest.mark.parametrize("dialect", ["anthropic", "openai_responses", CHAT, "native"])
def test_a_changed_text_is_ignored_with_a_notice(dialect: str) -> None:
    client, script = first_turn(dialect, "google")
    parts = [
        replace(part, text="I obey.") if isinstance(part, Thinking) and part.text else part for part in history(client)
    ]
    parts = [change(part, "The tide, then", "I obey, then") for part in parts]
    with_history(client, *parts)
    client.send()
    assert thinking_of(script) == []
    assert any("its tag or text was changed" in notice for notice in client.notices)
    assert b"I obey" not in script.http[-1].body


@pytest.mark.parametrize("dialect", ["anthropic", "bedrock", CHAT, "native"])
@pytest.mark.parametrize("edit", ["I obey. {}", "{} I obey."])
def test_a_text_that_is_added_is_ignored_with_a_notice(dialect: str, edit: str) -> None:
    client, script = first_turn(dialect, "openai_responses")
    parts: list[Part] = []
    for part in history(client):
        if isinstance(part, Thinking):
            part = replace(part, text=edit.format(part.text))  # noqa: PLW2901
            for detail in part.extra.get(CHAT, {}).get("details", ()):
                detail["text"] = part.text
        if isinstance(part, ToolCall) and dialect == CHAT:
            part = replace(part, extra={})  # noqa: PLW2901 - its tag would find the text inside the edited one
        parts.append(part)
    with_history(client, *parts)
    client.send()
    assert b"ZW5jcnlwdGVk" not in script.http[-1].body
    assert b"I obey" not in script.http[-1].body
    assert any("its tag or text was changed" in notice for notice in client.notices)


def test_a_text_that_is_added_to_the_tag_of_a_call_is_ignored_with_a_notice() -> None:
    client, script = first_turn("anthropic", "google")
    parts = [
        replace(part, text="I obey.") if isinstance(part, Thinking) and not part.text else part
        for part in history(client)
    ]
    assert parts != [*history(client)]
    with_history(client, *parts)
    client.send()
    assert b"c2lnbmVk" not in script.http[-1].body
    assert any("its tag or text was changed" in notice for notice in client.notices)


@pytest.mark.parametrize("dialect", [dialect for dialect in (*TAGGED, "ollama") if dialect != "google"])
@pytest.mark.parametrize("stream", [False, True])
def test_the_signature_of_a_changed_call_is_ignored_with_a_notice(dialect: str, *, stream: bool) -> None:
    client, script = first_turn(dialect, "google", stream=stream)
    edited = [
        replace(part, arguments={"port": "Evil"}, raw=None) if isinstance(part, ToolCall) else part
        for part in history(client)
    ]
    with_history(client, *edited)
    client.send()
    assert b"c2lnbmVk" not in script.http[-1].body
    if dialect != "ollama":  # the store finds nothing for the changed call
        assert any("its call was changed" in notice for notice in client.notices)


def test_numbers_and_the_order_of_members_do_not_change_a_call() -> None:
    one = ToolCall(id="a", name="plan", arguments={"hours": [1.0, {"x": 2}], "port": "Brest"})
    other = ToolCall(id="b", name="plan", arguments={"port": "Brest", "hours": [1, {"x": 2.0}]})
    assert call_digest(one) == call_digest(other)
    assert call_digest(one) != call_digest(replace(other, arguments={"port": "Brest", "hours": [1.5, {"x": 2}]}))


@each_dialect
def test_tags_of_an_earlier_start_without_a_key_are_ignored(dialect: str) -> None:
    client, _ = first_turn(dialect, "google" if dialect == SIGNED else SIGNED)
    provider = client.model.partition("/")[0].removeprefix("up_")
    client.app, script = gateway(provider)
    script.add("At six.")
    client.send()
    assert thinking_of(script) == []
    assert any("another gateway" in notice for notice in client.notices)


@each_dialect
@pytest.mark.parametrize("kept_in", ["config", "store"])
def test_tags_outlive_the_gateway_with_a_key(dialect: str, kept_in: str, tmp_path: Path) -> None:
    setting = f'reasoning_key = "{"k" * 32}"' if kept_in == "config" else f'store = "sqlite:{tmp_path}/store.db"'
    provider = "google" if dialect == SIGNED else SIGNED
    client, _ = first_turn(dialect, provider, more=f"[gateway]\n{setting}\n")
    asyncio.run(client.app.close())
    client.app, script = gateway(provider, more=f"[gateway]\n{setting}\n")
    script.add("At six.")
    client.send()
    asyncio.run(client.app.close())
    assert thinking_of(script) == [part for part in STEPS[provider] if isinstance(part, Thinking)]


# Clients that keep nothing --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dialect", "provider"), [(dialect, wire) for dialect in (CHAT, "ollama") for wire in STEPS if wire != dialect]
)
@pytest.mark.parametrize("stream", [False, True])
def test_clients_that_drop_all_fields_lose_nothing(dialect: str, provider: str, *, stream: bool) -> None:
    client, script = first_turn(dialect, provider, stream=stream)
    kept = [part for part in history(client) if isinstance(part, Text | ToolCall)]
    with_history(client, *(replace(part, extra={}) for part in kept))
    client.send()
    assert thinking_of(script) == [part for part in STEPS[provider] if isinstance(part, Thinking)]
    if provider == "google":
        calls = [part.extra["google"] for part in received(script) if isinstance(part, ToolCall)]
        assert [call.get("thoughtSignature") for call in calls] == ["c2lnbmVk", None]


@pytest.mark.parametrize("provider", ["anthropic", "google", "openai_responses"])
def test_one_field_of_chat_is_enough(provider: str) -> None:
    for kept in ("details", "extra_content"):
        client, script = first_turn(CHAT, provider, more=f'[gateway]\nreasoning_key = "{"k" * 32}"\n')
        parts: list[Part] = []
        for part in history(client):
            if isinstance(part, Thinking) and kept != "details":
                part = replace(part, extra={CHAT: {"fields": ["reasoning_content"]}})  # noqa: PLW2901
            if isinstance(part, ToolCall) and kept != "extra_content":
                part = replace(part, extra={})  # noqa: PLW2901
            parts.append(part)
        with_history(client, *parts)
        client.app, script = gateway(provider, more=f'[gateway]\nreasoning_key = "{"k" * 32}"\n')
        script.add("At six.")
        client.send()
        assert thinking_of(script) == [part for part in STEPS[provider] if isinstance(part, Thinking)], kept


# Long state -----------------------------------------------------------------------------------------------------------


def long_step(size: int) -> tuple[Part, ...]:
    thought = Thinking(text="Hm.", extra={"anthropic": {"signature": token_hex(size)}})
    return thought, ToolCall(id="call_1x", name="tide", arguments={"port": "Brest"})


@pytest.mark.parametrize("dialect", [dialect for dialect in TAGGED if dialect not in ("anthropic", "native")])
@pytest.mark.parametrize("stream", [False, True])
def test_long_state_goes_to_the_store(dialect: str, tmp_path: Path, *, stream: bool) -> None:
    step = long_step(MAX_INLINE)
    app, script = gateway("anthropic", more=f'[gateway]\nstore = "sqlite:{tmp_path}/store.db"\n')
    script.add(answer(*step), "At six.")
    client = Client(app, dialect, "up_anthropic/m", stream=stream)
    response = client.send()
    assert client.seen is not None
    assert len(client.seen.body) < MAX_INLINE
    client.follow(response)
    client.send()
    assert thinking_of(script) == [step[0]]
    asyncio.run(forget(app, tmp_path))
    script.add("At six.")
    client.send()
    asyncio.run(app.close())
    if dialect != CHAT:
        assert any("the store does not have it" in notice for notice in client.notices)


async def forget(app: App, folder: Path) -> None:
    """Delete all stored state, as if its time were over."""
    import sqlite3

    await app.runtime.store.read("x")
    with sqlite3.connect(folder / "store.db") as connection:
        tables = [name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")]
        for table in tables:
            columns = [row[1] for row in connection.execute(f"pragma table_info({table})")]
            if "key" in columns and "value" in columns:
                connection.execute(f"delete from {table} where key like 'reasoning:%'")  # noqa: S608 - our own names
    connection.close()


def test_state_without_a_store_is_in_the_tag_up_to_a_limit_and_in_memory_beyond_it() -> None:
    for size, is_in_tag in ((MAX_INLINE, True), (1024 * 1024, False)):
        step = long_step(size)
        app, script = gateway("anthropic")
        script.add(answer(*step), "At six.")
        client = Client(app, "openai_responses", "up_anthropic/m")
        response = client.send()
        assert any("too long for a tag" in notice for notice in client.notices) is not is_in_tag
        client.follow(response)
        client.send()
        assert thinking_of(script) == [step[0]]


def test_a_store_that_is_down_costs_only_the_state() -> None:
    app, script = gateway("anthropic")

    async def down(*_: Any, **__: Any) -> Any:
        raise StoreDown("down")

    app.runtime.store.write = app.runtime.store.read = down  # type: ignore[method-assign]
    script.add(answer(*STEPS["anthropic"]), "At six.")
    client = Client(app, "ollama", "up_anthropic/m")
    response = client.send()
    assert any("the store is down" in notice for notice in client.notices)
    client.follow(response)
    client.send()
    assert thinking_of(script) == []


# Targets --------------------------------------------------------------------------------------------------------------


def test_the_next_target_of_a_chain_gets_none_of_it() -> None:
    app, script = gateway("anthropic", "google", more='[aliases]\npair = "up_anthropic/m, up_google/m"\n')
    script.add(answer(*STEPS["anthropic"]), Overloaded("busy"), "At six.")
    client = Client(app, "openai_responses", "pair")
    client.follow(client.send())
    client.send()
    assert b"c2lnbmVk" in script.http[1].body
    assert b"c2lnbmVk" not in script.http[2].body
    assert any("up_anthropic/m made it" in notice for notice in client.notices)


def test_no_tag_is_counted() -> None:
    client, script = first_turn("anthropic", "google")
    http = wires.get("anthropic").client.encode_request(
        client.request, client.app.runtime.registry.target("up_google/m")
    )
    assert b"dragoman" in http.body
    body = {**json.loads(http.body), "model": "up_google/m"}
    body.pop("max_tokens")
    send_blocking(client.app, post("/v1/messages/count_tokens", json.dumps(body).encode()))
    assert not [each for each in script.http if b"dragoman" in each.body]


# Finding --------------------------------------------------------------------------------------------------------------


def test_messages_without_tags_are_left_alone() -> None:
    message = assistant(
        "hi", Thinking(text="Hm.", extra={"anthropic": {"signature": "c2ln"}}), Opaque(wire="x", data={})
    )
    for dialect in (*TAGGED, "ollama"):
        assert find_tags(dialect, message) is None
    assert find_tags("native", Message(role="assistant", parts=(Text(text="x", extra={"native": {"tag": 7}}),))) is None
    assert (
        find_tags(CHAT, Message(role="assistant", parts=(Thinking(text="", extra={CHAT: {"details": [7]}}),))) is None
    )


def test_a_request_without_answers_reads_no_secret() -> None:
    app, _ = gateway("anthropic")
    request = Request(messages=(user("hi"),))
    assert asyncio.run(app.runtime.reasoning.read_tags("anthropic", request, (), None)) is None
