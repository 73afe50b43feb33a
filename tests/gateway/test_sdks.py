"""The official packages against a live gateway: what their users see, blocking and async."""

from collections.abc import Iterator
from itertools import count

import pytest

from dragoman import wires
from dragoman.errors import Overloaded, RateLimited
from dragoman.testing import (
    CloseAfter,
    CloseAtOnce,
    ErrorInside200,
    FaultyServer,
    InvalidBody,
    RawResponse,
    ResetAfter,
    StallAfter,
)
from dragoman.testing.script import ScriptLine, render
from dragoman.types import Image, Request, ToolCall
from tests.support.gateway.live import Gateway, record
from tests.support.gateway.sdks import PICTURE, SDKS, Sdk, Tide

WORDS = "one two three"
SHOWN = sum(map(len, render(WORDS, wires.get("openai_chat"), Request(stream=True)).chunks[:2])) + 9
BAD: dict[str, ScriptLine] = {
    "dropped": CloseAtOnce(),
    "garbage": InvalidBody(),
    "refused-inside": ErrorInside200(Overloaded("busy", status=503)),
    "html": RawResponse(status=502, headers={"content-type": "text/html"}, body=b"<html>Bad gateway</html>"),
    "truncated": CloseAfter(20),
    "empty": RawResponse(headers={"content-type": "application/json"}, body=b""),
}


@pytest.fixture(scope="module")
def upstream() -> Iterator[FaultyServer]:
    with FaultyServer() as server:
        yield server


@pytest.fixture(scope="module")
def broken() -> Iterator[dict[str, FaultyServer]]:
    """Providers that always do the same wrong."""
    servers = {name: FaultyServer(line, repeat=True) for name, line in BAD.items()}
    for server in servers.values():
        server.__enter__()
    yield servers
    for server in servers.values():
        server.stop()


@pytest.fixture(scope="module")
def gateway(
    upstream: FaultyServer, broken: dict[str, FaultyServer], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    aliases = "".join(f'rescued-{name} = "{name}/m, demo/any"\n' for name in broken)
    config = (
        record("up", upstream.base_url())
        + record("claude", upstream.base_url("anthropic"), "anthropic")
        + "".join(record(name, server.base_url()) for name, server in broken.items())
        + '[gateway]\nproviders = ["demo"]\n[chain]\nretries = 0\n[aliases]\npair = "demo/overloaded, demo/any"\n'
        + aliases
    )
    with Gateway(tmp_path_factory.mktemp("gateway"), config) as running:
        yield running


@pytest.fixture(params=[f"{name}, {how}" for name in SDKS for how in ("blocking", "async")])
def sdk(request: pytest.FixtureRequest, gateway: Gateway) -> Sdk:
    name, _, how = request.param.partition(", ")
    return SDKS[name](gateway.url, is_async=how == "async")


_numbers = count()


@pytest.fixture
def fresh() -> str:
    """A model that no other test has had benched."""
    return f"up/{next(_numbers)}"


@pytest.mark.parametrize("model", ["demo/any", "pair"])
def test_an_answer(sdk: Sdk, model: str) -> None:
    assert sdk.talk("ask", model).startswith("Hello!")


@pytest.mark.parametrize("model", ["demo/any", "pair"])
def test_a_stream_says_what_the_answer_says(sdk: Sdk, model: str) -> None:
    seen: list[str] = []
    sdk.stream(model, seen)
    assert "".join(seen) == sdk.talk("ask", model)


@pytest.mark.parametrize("model", ["up/m", "claude/m"])
def test_tools_over_two_turns(sdk: Sdk, upstream: FaultyServer, model: str) -> None:
    upstream.add(ToolCall(id="call_abc123", name="tide", arguments={"place": "Kiel"}), "It turns at six.")
    assert sdk.talk("tools", model) == ("tide", {"place": "Kiel"}, "It turns at six.")
    call, result = upstream.requests[-1].messages[-2:]
    assert call.tool_calls[0].id == result.tool_results[0].id
    assert result.tool_results[0].text in ("at six", '{"result":"at six"}')


@pytest.mark.parametrize("model", ["up/m", "claude/m"])
def test_an_answer_of_a_type(sdk: Sdk, upstream: FaultyServer, model: str) -> None:
    upstream.add('{"place": "Kiel"}')
    assert sdk.talk("structured", model) == Tide(place="Kiel")
    schema = upstream.requests[-1].schema
    assert schema is not None
    assert schema["required"] == ["place"]


@pytest.mark.parametrize("model", ["up/m", "claude/m"])
def test_a_picture_arrives_as_it_was(sdk: Sdk, upstream: FaultyServer, model: str) -> None:
    upstream.add("A square.")
    assert sdk.talk("look", model) == "A square."
    pictures = [part for part in upstream.requests[-1].messages[-1].parts if isinstance(part, Image)]
    assert [picture.data for picture in pictures] == [PICTURE]


def test_a_refusal_is_the_error_of_the_package(sdk: Sdk, upstream: FaultyServer, fresh: str) -> None:
    upstream.add(RateLimited("slow down", status=429, retry_after=30.0))
    with pytest.raises(sdk.limited):
        sdk.talk("ask", fresh)


def test_an_unknown_model_is_the_error_of_the_package(sdk: Sdk) -> None:
    with pytest.raises(sdk.errors):
        sdk.talk("ask", "nix/da")


@pytest.mark.parametrize("line", BAD.values(), ids=BAD)
def test_a_provider_that_misbehaves_is_the_error_of_the_package(
    sdk: Sdk, upstream: FaultyServer, fresh: str, line: ScriptLine
) -> None:
    upstream.add(line)
    with pytest.raises(sdk.errors):
        sdk.talk("ask", fresh)


@pytest.mark.parametrize("name", BAD)
def test_a_provider_that_misbehaves_is_passed_by(sdk: Sdk, name: str) -> None:
    assert sdk.talk("ask", f"rescued-{name}").startswith("Hello!")
    seen: list[str] = []
    sdk.stream(f"rescued-{name}", seen)
    assert "".join(seen).startswith("Hello!")


@pytest.mark.parametrize("line", [CloseAfter(SHOWN, WORDS), ResetAfter(SHOWN, WORDS)], ids=["cut", "reset"])
def test_a_stream_that_the_provider_cuts_raises(
    sdk: Sdk, upstream: FaultyServer, fresh: str, line: CloseAfter | ResetAfter
) -> None:
    upstream.add(line)
    seen: list[str] = []
    with pytest.raises(sdk.errors):
        sdk.stream(fresh, seen)
    assert WORDS in "".join(seen)


def test_a_stream_that_fails_before_its_first_word_raises(sdk: Sdk, upstream: FaultyServer, fresh: str) -> None:
    upstream.add(Overloaded("busy", status=503))
    with pytest.raises(sdk.errors):
        sdk.stream(fresh, [])


@pytest.fixture(scope="module")
def pinging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A gateway before a provider that never begins; it says that it lives long before it gives that one up."""
    with FaultyServer(StallAfter(0), repeat=True) as quiet:
        config = '[gateway]\nping = 0.02\nproviders = ["demo"]\n[timeouts]\nfirst_event = 0.5\n[chain]\nretries = 0\n'
        with Gateway(tmp_path_factory.mktemp("pinging"), config + record("quiet", quiet.base_url())) as running:
            yield running.url


@pytest.mark.parametrize("is_async", [False, True], ids=["blocking", "async"])
@pytest.mark.parametrize("name", SDKS)
def test_a_stream_that_begins_with_pings_is_read(pinging: str, name: str, is_async: bool) -> None:  # noqa: FBT001
    seen: list[str] = []
    SDKS[name](pinging, is_async=is_async).stream(f"quiet/{next(_numbers)},demo/any", seen)
    assert "".join(seen).startswith("Hello!")


@pytest.mark.parametrize("is_async", [False, True], ids=["blocking", "async"])
@pytest.mark.parametrize("name", SDKS)
def test_what_the_gateway_has_not_is_the_error_of_the_package(gateway: Gateway, name: str, is_async: bool) -> None:  # noqa: FBT001
    sdk = SDKS[name](gateway.url, is_async=is_async)
    with pytest.raises(sdk.errors, match=r"no route for /|cachedContents are not stored here"):
        sdk.talk("absent", "demo/any")


@pytest.mark.parametrize("is_async", [False, True], ids=["blocking", "async"])
@pytest.mark.parametrize("name", ["openai chat", "anthropic"])
def test_the_package_knows_the_id_of_a_request(gateway: Gateway, name: str, is_async: bool) -> None:  # noqa: FBT001
    sdk = SDKS[name](gateway.url, is_async=is_async)
    assert sdk.talk("identify", "demo/any").startswith("req_")
    with pytest.raises(sdk.errors) as caught:
        sdk.talk("identify", "nix/da")
    assert caught.value.request_id.startswith("req_")


@pytest.mark.parametrize("is_async", [False, True], ids=["blocking", "async"])
def test_a_response_is_kept_until_it_is_deleted(gateway: Gateway, upstream: FaultyServer, is_async: bool) -> None:  # noqa: FBT001
    upstream.add("Noted.", "Blue.")
    sdk = SDKS["openai responses"](gateway.url, is_async=is_async)
    with pytest.raises(sdk.errors) as caught:
        sdk.talk("goes_on", "up/m")
    assert caught.value.code == "previous_response_not_found"
    assert [message.text for message in upstream.requests[-1].messages] == ["Remember blue.", "Noted.", "Which?"]


@pytest.mark.parametrize("is_async", [False, True], ids=["blocking", "async"])
def test_ollama_generates_from_a_prompt(gateway: Gateway, is_async: bool) -> None:  # noqa: FBT001
    assert SDKS["ollama"](gateway.url, is_async=is_async).talk("generate", "demo/any").startswith("Hello!")
