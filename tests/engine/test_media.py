"""Media in a call and in a chain: fitted per target and attempt, once, and where it blocks nobody."""

import asyncio
import json
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman import wires
from dragoman.engine import failover
from dragoman.engine.attempt import FETCH_TIMEOUT, attempt, build_request
from dragoman.engine.call_context import CallContext
from dragoman.engine.effects import Compute, Fetch, Plan, Send
from dragoman.engine.endpoints import count_tokens
from dragoman.engine.exchange import HEAVY_BODY
from dragoman.engine.health import Health
from dragoman.errors import AuthFailed, ChainExhausted, TimedOut, Unsupported
from dragoman.io.driver import Driver
from dragoman.io.transport import make_transport
from dragoman.media import MediaCache
from dragoman.media.cache import MAX_FETCHED, MAX_FETCHED_TOGETHER
from dragoman.registry import Registry
from dragoman.targets.target import Capabilities, Target
from dragoman.testing import FaultyServer
from dragoman.types import (
    Document,
    Image,
    Request,
    Response,
    ResultPart,
    Text,
    ToolCall,
    ToolResult,
    assistant,
    tool_results,
    user,
)
from dragoman.types.data_urls import decode_base64
from tests.support.images import bomb, opened, picture, sent
from tests.support.plans import OK, Status, World, last_line, target

DATA = picture(100, 50)
PNG = Image(data=DATA, mime="image/png")
ASK = Request(messages=(user("see", PNG),))
LINK = Request(messages=(user("see", Image(url="https://x/a.png")),))
BUSY = Status(503)


def able(name: str = "aa/m", **capabilities: Any) -> Target:
    return target(name, capabilities=Capabilities(**capabilities))


def ask(world: World, *targets: Target, request: Request = ASK, **options: Any) -> Response:
    return world.run(failover.run(request, targets, Health(), failover.ChainOptions(**options)))


# Per target, per attempt ----------------------------------------------------------------------------------------------


def test_each_target_gets_what_it_takes() -> None:
    world = World(BUSY, OK)
    ask(world, able("aa/m", max_image_side=32), able("bb/m", max_image_side=8000), retries=0)
    small, whole = (sent(effect.request.body)[0] for effect in world.requests)
    assert opened(small).size == (32, 16)
    assert whole == DATA


def test_a_retry_and_equal_limits_do_not_make_it_again() -> None:
    world = World(BUSY, BUSY, OK)
    ask(world, able("aa/m", max_image_side=32), able("bb/m", max_image_side=32), retries=1)
    assert (len(world.requests), world.computed) == (3, 1)


def test_the_conversation_keeps_the_original() -> None:
    ask(World(OK), able(max_image_side=32))
    assert ASK.messages[0].parts[1] is PNG
    assert PNG.data is DATA


def test_a_text_only_target_leaves_images_to_the_next() -> None:
    health = Health()
    plan = failover.run(ASK, [able("text/only", max_images=0), able("vision/m")], health, failover.ChainOptions())
    response = World(OK).run(plan)
    assert response.target == "vision/m"
    assert [(attempt.outcome, attempt.error) for attempt in response.attempts] == [
        ("failed", "Unsupported: does not support images"),
        ("served", None),
    ]
    assert "text/only" not in health.snapshot()


def test_what_cannot_be_fitted_is_left_to_the_next() -> None:
    world = World(OK)
    response = ask(world, able("aa/m", max_image_bytes=10), able("bb/m"))
    assert (response.target, len(world.requests)) == ("bb/m", 1)
    assert "cannot be made to fit" in (response.attempts[0].error or "")


def test_hostile_bytes_are_the_last_word_of_a_chain() -> None:
    with pytest.raises(Unsupported, match="too large to be decoded"):
        ask(World(), able("aa/m"), able("bb/m"), request=Request(messages=(user(Image(data=bomb(30_000, 30_000))),)))


def test_notices_are_on_the_receipt() -> None:
    response = ask(World(OK), able(max_image_side=32))
    assert [(notice.kind, notice.loss) for notice in response.notices] == [("info", False)]
    assert response.notices[0].why.startswith("aa/m: sent as image/png, 32 by 16, ")
    assert ask(World(OK), able()).notices == ()


def test_strict_bears_a_smaller_picture() -> None:
    assert ask(World(OK), able(max_image_side=32), request=replace(ASK, strict=True)).text == "fine"


def test_explain_shows_the_fitted_bytes() -> None:
    registry = Registry(env={"OPENAI_API_KEY": "k"})
    registry.set_capabilities("openai/m", max_image_side=32, max_image_bytes=5000, max_images=3)
    (seen,) = registry.model("openai/m").explain([user(PNG)])
    assert seen.request is not None
    assert opened(sent(seen.request.body)[0]).size == (32, 16)
    assert [notice.kind for notice in seen.notices] == ["info"]
    registry.set_capabilities("openai/m", allowed_image_types=("image/jpeg",))
    (seen,) = registry.model("openai/m").explain([user(PNG)])
    assert seen.request is not None
    assert opened(sent(seen.request.body)[0]).format == "JPEG"


def test_explain_fetches_nothing() -> None:
    (seen,) = Registry(env={}).model("ollama/m", fetch_images=True).explain(LINK.messages)
    assert (seen.ready, seen.request) == (True, None)
    assert seen.reason == "images by URL are fetched when the call is made"


def test_tokens_are_counted_of_what_would_be_sent() -> None:
    with FaultyServer("Hello.") as server:
        registry = server.registry("anthropic")
        registry.set_capabilities("server/m", max_images=0)
        with pytest.raises(Unsupported, match="does not support images"):
            registry.model("server/m").count_tokens([user(PNG)])


# What tools gave ------------------------------------------------------------------------------------------------------

PDF = Document(data=b"%PDF", mime="application/pdf")


def request_with_result(*parts: ResultPart, strict: bool = False) -> Request:
    made = assistant(ToolCall(id="call_1", name="chart"))
    results = tool_results(ToolResult(id="call_1", name="chart", content=(Text(text="See:"), *parts)))
    return Request(messages=(user("?"), made, results), strict=strict)


def left_out(world: World, *targets: Target, request: Request, **options: Any) -> list[str]:
    """What is sent beside the text of the result; it has a notice each."""
    response = ask(world, *targets, request=request, **options)
    assert [notice.kind for notice in response.notices] == ["dropped"]
    _, decoded = wires.get("openai_chat").server.decode_request(world.requests[-1].request)
    (result,) = (result for message in decoded.messages for result in message.tool_results)
    return result.text.splitlines()[1:]


@pytest.mark.parametrize(
    ("part", "capabilities", "why"),
    [
        (PNG, {"max_images": 0}, "An image was left out for this model: does not support images."),
        (PDF, {"documents": False}, "A document was left out for this model: does not support documents."),
        (
            PDF,
            {"max_document_bytes": 3},
            "A document was left out for this model: a document has 4 bytes; at most 3 are allowed",
        ),
        (
            Document(data=b"PK", mime="application/zip"),
            {},
            "A document was left out for this model: does not support documents of the type",
        ),
        (Image(url="https://x/a.png"), {}, "An image was left out for this model: cannot fetch https://x/a.png"),
        (PNG, {"max_image_bytes": 10}, "An image was left out for this model: an image (image/png, 100 by 50) cannot"),
        (Image(data=b"<svg/>"), {}, "An image was left out for this model: an image is of an unknown type."),
    ],
)
def test_what_nobody_takes_of_a_result_is_left_out_with_words(part: Any, capabilities: Any, why: str) -> None:
    (line,) = left_out(World(OK), able(**capabilities), request=request_with_result(part))
    assert line.startswith(f"[{why}")


def test_what_a_wire_cannot_carry_of_a_result_is_left_out() -> None:
    world = World(Status(200, b'{"message": {"role": "assistant", "content": "fine"}, "done": true}'))
    response = ask(world, replace(able(), wire="ollama"), request=request_with_result(PDF, PNG))
    assert [notice.what for notice in response.notices] == [
        "a document in a tool result",
        "an image in a tool result",
    ]
    assert b"cannot send a document" in world.requests[0].request.body


def test_a_result_goes_to_who_takes_it_rather_than_to_who_does_not() -> None:
    world = World(OK)
    response = ask(world, able("text/only", max_images=0), able("vision/m"), request=request_with_result(PNG))
    assert (response.target, response.notices) == ("vision/m", ())
    world = World(BUSY, OK)
    response = ask(
        world, able("text/only", max_images=0), able("vision/m"), request=request_with_result(PNG), retries=0
    )
    assert [(one.target, one.outcome) for one in response.attempts] == [
        ("text/only", "failed"),
        ("vision/m", "failed"),
        ("text/only", "served"),
    ]


def test_what_a_user_gives_is_refused_beside_a_result() -> None:
    request = request_with_result(PNG)
    both = replace(request, messages=(*ASK.messages, *request.messages))
    with pytest.raises(Unsupported, match=r"^aa/m: does not support images$"):
        ask(World(), able(max_images=0), request=both)


def test_strict_leaves_nothing_out_of_a_result() -> None:
    with pytest.raises(Unsupported, match="does not support images"):
        ask(World(), able(max_images=0), request=request_with_result(PNG, strict=True))


def test_one_picture_of_a_result_that_is_not_there_takes_no_other_with_it() -> None:
    world = World(OK)
    world.pictures = {"https://x/a.png": Unsupported("cannot fetch it: the answer is 404"), "https://x/b.png": DATA}
    request = request_with_result(Image(url="https://x/a.png"), Image(url="https://x/b.png"))
    (line,) = left_out(world, able(), request=request, fetch_images=True)
    assert (
        line
        == "[An image was left out for this model: cannot fetch https://x/a.png; send the bytes of the image instead.]"
    )
    assert (len(world.fetched), sent(world.requests[0].request.body)) == (2, [DATA])


def test_explain_and_tokens_leave_out_as_a_call_does() -> None:
    to = replace(able(max_images=0), wire="anthropic")
    assert b"was left out for this model" in build_request(request_with_result(PNG), to).body
    world = World(Status(200, b'{"input_tokens": 5}'))
    assert world.run(count_tokens(request_with_result(PNG), to, failover.ChainOptions())) == 5
    assert b"was left out for this model" in world.requests[0].request.body


# Where it blocks nobody -----------------------------------------------------------------------------------------------


def test_only_what_takes_long_is_computed() -> None:
    for to, computed in ((able(), 0), (able(max_image_side=32), 1)):
        world = World(OK)
        ask(world, to)
        assert world.computed == computed
    world = World(OK)
    ask(world, able(), request=Request(messages=(user("hello"),)))
    assert world.computed == 0


def test_an_error_in_another_thread_is_the_callers() -> None:
    with FaultyServer("Hello.") as server:
        registry = server.registry()
        registry.set_capabilities("server/m", max_image_bytes=10)
        with pytest.raises(Unsupported, match="cannot be made to fit") as caught:
            asyncio.run(registry.model("server/m").agenerate([user(PNG)]))
    assert (caught.value.provider, caught.value.model) == ("server", "m")


def test_the_deadline_bounds_the_work() -> None:
    plan = attempt(ASK, able(max_image_side=32), CallContext(deadline=103.0))
    effect = World().until(plan, Compute)
    assert isinstance(effect, Compute)
    assert effect.timeout == 3.0
    with pytest.raises(TimedOut, match="while an image was made to fit"):
        effect.function(lambda: True)


def test_a_large_answer_is_decoded_where_it_blocks_nobody() -> None:
    world = World(Status(200, last_line("a" * HEAVY_BODY)), OK)
    for computed in (1, 1):
        ask(world, able(), request=Request(messages=(user("hello"),)))
        assert world.computed == computed


# Fetching -------------------------------------------------------------------------------------------------------------


def fetching(world: World, *targets: Target, **options: Any) -> Response:
    world.pictures["https://x/a.png"] = DATA
    return ask(world, *targets, request=LINK, fetch_images=True, **options)


def test_nothing_is_fetched_unless_it_is_wanted() -> None:
    world = World()
    with pytest.raises(Unsupported, match=r"cannot fetch https://x/a\.png; send the bytes of the image"):
        ask(world, able(), request=LINK)
    assert world.fetched == []


@pytest.mark.parametrize("image_urls", [False, True])
def test_who_is_refused_a_url_sees_once_in_the_traceback_what_would_fetch_it(*, image_urls: bool) -> None:
    with pytest.raises(ChainExhausted) as caught:
        ask(World(BUSY), able("aa/m"), able("bb/m", image_urls=image_urls), request=LINK, retries=0)
    assert caught.value.__notes__ == ["fetch_images=True lets dragoman fetch it."]
    assert "fetch_images" not in str(caught.value)


def test_what_is_fetched_is_fitted() -> None:
    world = World(OK)
    fetching(world, able(max_image_side=32))
    assert world.fetched == [Fetch("https://x/a.png", FETCH_TIMEOUT, MAX_FETCHED)]
    assert opened(sent(world.requests[0].request.body)[0]).size == (32, 16)


def test_a_picture_is_fetched_once_a_call() -> None:
    world = World(BUSY, BUSY, OK)
    fetching(world, able("aa/m"), able("bb/m"))
    assert (len(world.fetched), len(world.requests)) == (1, 3)


def test_a_picture_that_is_there_twice_is_fetched_once() -> None:
    world = World(OK)
    world.pictures["https://x/a.png"] = DATA
    twice = Request(messages=(*LINK.messages, *LINK.messages))
    ask(world, able(), request=twice, fetch_images=True)
    assert (len(world.fetched), sent(world.requests[0].request.body)) == (1, [DATA, DATA])


def test_a_picture_that_is_not_there_is_asked_for_once_a_call() -> None:
    world = World()
    world.pictures["https://x/a.png"] = Unsupported("cannot fetch https://x/a.png: the answer is 404")
    with pytest.raises(
        Unsupported, match=r"bb/m failed \(Unsupported: cannot fetch https://x/a\.png: the answer is 404"
    ):
        ask(world, able("aa/m"), able("bb/m"), request=LINK, fetch_images=True)
    assert len(world.fetched) == 1


def test_what_is_fetched_is_bounded_together() -> None:
    urls = [f"https://x/{number}.png" for number in range(5)]
    world = World()
    world.pictures = dict.fromkeys(urls, DATA.ljust(MAX_FETCHED, b"\0"))
    many = Request(messages=(user(*(Image(url=url) for url in urls)),))
    with pytest.raises(
        Unsupported, match=r"cannot fetch https://x/4.png: the images of this call are larger than the limit in total"
    ):
        ask(world, able(), request=many, fetch_images=True)
    assert [effect.limit for effect in world.fetched] == [*[MAX_FETCHED] * 3, MAX_FETCHED_TOGETHER - 3 * MAX_FETCHED]


def test_tokens_are_counted_of_what_is_fetched_and_fitted() -> None:
    world = World(Status(200, b'{"input_tokens": 5}'))
    world.pictures["https://x/a.png"] = DATA
    to = replace(able(max_image_side=32), wire="anthropic")
    assert world.run(count_tokens(LINK, to, failover.ChainOptions(fetch_images=True))) == 5
    block = json.loads(world.requests[0].request.body)["messages"][0]["content"][1]
    assert opened(decode_base64(block["source"]["data"])).size == (32, 16)


def test_a_loss_is_no_more_counted_than_sent_where_the_request_is_strict() -> None:
    to = replace(able(max_images=1), wire="anthropic")
    many = Request(messages=(user(PNG, PNG),), strict=True)
    with pytest.raises(Unsupported, match="strict"):
        World().run(count_tokens(many, to, failover.ChainOptions()))


def test_a_target_that_fetches_by_itself_is_left_to_it() -> None:
    to = replace(able("openai/m", image_urls=True), wire="openai_chat")
    world, plan = World(), attempt(LINK, to, CallContext(fetch_images=True))
    effect = world.until(plan, Send)
    assert isinstance(effect, Send)
    assert b"https://x/a.png" in effect.request.body
    assert world.fetched == []


def test_nothing_is_fetched_for_a_target_that_would_refuse() -> None:
    world = World(OK)
    blind, keyless = able("aa/m", max_images=0), replace(able("bb/m"), needs_key=True, key_names=("BB_KEY",))
    response = fetching(world, blind, keyless, able("cc/m"))
    assert [(attempt.error or "").partition(":")[0] for attempt in response.attempts] == [
        Unsupported.__name__,
        AuthFailed.__name__,
        "",
    ]
    assert len(world.fetched) == 1


def test_a_picture_that_cannot_be_fetched_is_left_to_the_next() -> None:
    def refuse(plan: Plan[Any]) -> None:
        world = World()
        world.until(plan, Fetch)
        plan.throw(Unsupported("cannot fetch https://x/a.png: the answer is 404"))

    with pytest.raises(Unsupported, match=r"^aa/m: cannot fetch https://x/a.png: the answer is 404") as caught:
        refuse(attempt(LINK, able(), CallContext(fetch_images=True)))
    assert (caught.value.fail_over, caught.value.count_failure, caught.value.provider) == (True, False, "aa")


def test_the_deadline_bounds_the_fetching() -> None:
    plan = attempt(LINK, able(), CallContext(deadline=103.0, media_cache=MediaCache(), fetch_images=True))
    assert World().until(plan, Fetch) == Fetch("https://x/a.png", 3.0, MAX_FETCHED)
    late = attempt(LINK, able(), CallContext(deadline=99.0, fetch_images=True))
    with pytest.raises(TimedOut):
        World().run(late)


def test_a_driver_computes_and_fetches_both_ways() -> None:
    def plan() -> Plan[int]:
        answer: int = yield Compute(lambda _: 6 * 7)
        yield Fetch("http://x/a.png", 1.0, 1)
        return answer

    driver = Driver(make_transport())
    with pytest.raises(Unsupported, match="only https"):
        driver.run(plan())
    with pytest.raises(Unsupported, match="only https"):
        asyncio.run(driver.arun(plan()))
