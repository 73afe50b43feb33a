"""Beginnings of prompts that Google stores: made, reused, renewed and deleted."""

import asyncio
import json
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman import CachePoint, Registry, Text, assistant, user
from dragoman.engine.prompt_caches import has_points
from dragoman.errors import BadRequest
from dragoman.http import HttpRequest
from dragoman.io.upload_index import UploadIndex
from dragoman.testing.fake_provider import InProcessProvider
from dragoman.testing.script import EncodedAnswer
from dragoman.types import Document, Image, Opaque, Request, Tool
from tests.support.images import picture

DOC = Document(data=b"%PDF-1.4 " + b"x" * 99, mime="application/pdf")
MODEL = "google/gemini-3-pro-preview"


class Google(InProcessProvider):
    """A provider that stores contents, as the Gemini API does."""

    def __init__(self) -> None:
        self.seen: list[HttpRequest] = []
        self.stored: dict[str, Any] = {}
        self.refusal: tuple[int, str] | None = None
        self.made = 0

    def answer(self, http: HttpRequest, /) -> EncodedAnswer:
        self.seen.append(http)
        status, body = self._answer(http)
        return EncodedAnswer(
            status=status, headers={"content-type": "application/json"}, chunks=[json.dumps(body).encode()]
        )

    def _answer(self, http: HttpRequest) -> tuple[int, Any]:
        path = http.path.partition("?")[0]
        body: Any = json.loads(http.body or b"{}")
        if path.endswith("/cachedContents"):
            if self.refusal is not None:
                return self.refusal[0], {"error": {"message": self.refusal[1]}}
            self.made += 1
            name = f"cachedContents/c{self.made}"
            self.stored[name] = body
            return 200, {"name": name, "usageMetadata": {"totalTokenCount": 2048}}
        if "/cachedContents/" in path:
            name = path.partition("/v1beta/")[2]
            if name not in self.stored:
                return 404, {"error": {"message": "not found"}}
            if http.method == "DELETE":
                del self.stored[name]
            return 200, {}
        used = body.get("cachedContent")
        if used is not None and used not in self.stored:
            return 403, {"error": {"message": "CachedContent not found (or permission denied)"}}
        usage = {"promptTokenCount": 2050, "cachedContentTokenCount": 2048 if used else 0}
        return 200, {
            "candidates": [{"content": {"parts": [{"text": "noon"}]}, "finishReason": "STOP"}],
            "usageMetadata": usage,
        }

    @property
    def calls(self) -> list[str]:
        return [f"{http.method} {http.path.partition('?')[0].rpartition('/')[2]}" for http in self.seen]


GENERATE = "POST gemini-3-pro-preview:generateContent"
MAKE = "POST cachedContents"


def registry_of(google: Google) -> Registry:
    return Registry(env={}, api_key="k-123456", http_client=google)


def last(google: Google) -> Any:
    return json.loads(google.seen[-1].body)


def test_a_beginning_is_stored_once_and_used_by_its_name() -> None:
    google = Google()
    model = registry_of(google).model(MODEL, system="Be brief.", tools=[Tool(name="tide")])
    first = model.generate([DOC, CachePoint(ttl="10m"), "When is high water?"])
    second = model.generate([DOC, CachePoint(ttl="10m"), "And low water?"])
    assert google.calls == [MAKE, GENERATE, GENERATE]
    created = json.loads(google.seen[0].body)
    assert created["ttl"] == "600s"
    assert created["model"] == "models/gemini-3-pro-preview"
    assert created["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    assert [part.keys() for part in created["contents"][0]["parts"]] == [{"inlineData"}]
    assert created["tools"]
    assert last(google) == {
        "cachedContent": "cachedContents/c1",
        "contents": [{"role": "user", "parts": [{"text": "And low water?"}]}],
    }
    assert (first.usage.cache_read, first.usage.input) == (2048, 2050)
    (notice,) = first.notices
    assert (notice.kind, notice.what) == ("info", "cost of a cache")
    assert notice.why == (
        "stored 2048 tokens for 600 s as cachedContents/c1; the provider bills the storage by tokens and hours"
    )
    assert second.notices == ()


def test_a_conversation_that_grows_uses_the_same_beginning() -> None:
    google = Google()
    model = registry_of(google).model(MODEL)
    opening = user(DOC, CachePoint(), "a")
    model.generate([opening])
    model.generate([opening, assistant("b"), user("c")])
    assert google.calls == [MAKE, GENERATE, GENERATE]
    assert [content["role"] for content in last(google)["contents"]] == ["user", "model", "user"]


def test_a_point_in_the_system_prompt_stores_system_and_tools() -> None:
    google = Google()
    registry_of(google).model(MODEL).generate("hi", system=[Text("long"), CachePoint()], cache_ttl=120)
    created = json.loads(google.seen[0].body)
    assert created == {
        "systemInstruction": {"parts": [{"text": "long"}]},
        "model": "models/gemini-3-pro-preview",
        "ttl": "120s",
    }


def test_a_beginning_that_is_used_is_renewed() -> None:
    google, now = Google(), [1000.0]
    registry = registry_of(google)
    registry.driver.uploads = UploadIndex(clock=lambda: now[0])
    model = registry.model(MODEL)
    prompt: list[Any] = [DOC, CachePoint(), "a"]
    model.generate(prompt)
    now[0] += 200
    model.generate(prompt)
    assert google.calls == [MAKE, GENERATE, "PATCH c1", GENERATE]
    renewal = google.seen[2]
    assert (renewal.path, json.loads(renewal.body)) == (
        "/v1beta/cachedContents/c1?updateMask=ttl",
        {"ttl": "300s"},
    )
    now[0] += 100
    model.generate(prompt)
    assert google.calls[4:] == [GENERATE]
    now[0] += 301
    model.generate(prompt)
    assert google.calls[5:] == [MAKE, GENERATE]


def test_a_renewal_that_fails_changes_nothing() -> None:
    google, now = Google(), [1000.0]
    registry = registry_of(google)
    registry.driver.uploads = UploadIndex(clock=lambda: now[0])
    model = registry.model(MODEL, retries=0)
    model.generate([DOC, CachePoint(), "a"])
    google.stored.clear()
    now[0] += 200
    assert model.generate([DOC, CachePoint(), "a"]).text == "noon"
    assert google.calls == [MAKE, GENERATE, "PATCH c1", GENERATE, MAKE, GENERATE]


def test_a_beginning_that_the_provider_forgot_is_made_again() -> None:
    google = Google()
    model = registry_of(google).model(MODEL)
    model.generate([DOC, CachePoint(), "a"])
    google.stored.clear()
    assert model.generate([DOC, CachePoint(), "a"]).text == "noon"
    assert google.calls == [MAKE, GENERATE, GENERATE, MAKE, GENERATE]


def test_a_beginning_that_is_too_short_is_sent_as_it_is() -> None:
    google = Google()
    google.refusal = 400, "Cached content is too small. total_token_count=9, min_total_token_count=1024"
    model = registry_of(google).model(MODEL)
    answer = model.generate(["doc", CachePoint(), "a"])
    assert "not stored, so the whole prompt is sent" in answer.notices[0].why
    assert "too small" in answer.notices[0].why
    assert last(google)["contents"][0]["parts"] == [{"text": "doc"}, {"text": "a"}]
    again = model.generate(["doc", CachePoint(), "a"])
    assert again.notices[0].why == "the provider refused to store this beginning a moment ago"
    assert google.calls == [MAKE, GENERATE, GENERATE]


def test_other_errors_are_errors() -> None:
    google = Google()
    model = registry_of(google).model(MODEL)
    model.generate([DOC, CachePoint(), "a"])

    def refuse(http: HttpRequest) -> tuple[int, Any]:
        return 400, {"error": {"message": "contents: wrong role"}}

    google._answer = refuse  # type: ignore[method-assign]
    with pytest.raises(BadRequest, match="wrong role"):
        model.generate([DOC, CachePoint(), "a"])


def test_a_point_that_nothing_follows_is_left_to_the_provider() -> None:
    google = Google()
    answer = registry_of(google).model(MODEL).generate([DOC, CachePoint()])
    assert google.calls == [GENERATE]
    assert answer.notices == ()
    own = {"google": {"cachedContent": "cachedContents/mine"}}
    google.stored["cachedContents/mine"] = {}
    answer = registry_of(google).model(MODEL).generate([DOC, CachePoint(), "a"], extra=own)
    assert google.calls == [GENERATE, GENERATE]
    assert "cannot be divided here" in answer.notices[0].why


def test_a_point_inside_a_run_of_calls_is_not_divided() -> None:
    google = Google()
    from dragoman import Message, ToolCall, ToolResult

    call = Message(role="assistant", parts=(ToolCall(id="1", name="tide", extra={"cache": {}}),))
    messages = [user("a"), call, Message(role="tool", parts=(ToolResult(id="1", name="tide", content="9"),))]
    answer = registry_of(google).model(MODEL).generate(messages, tools=[Tool(name="tide")])
    assert google.calls[-1] == GENERATE
    assert answer.text == "noon"


def test_marks_of_clients_and_cache_true_make_nothing() -> None:
    google = Google()
    model = registry_of(google).model(MODEL)
    marked = Text("doc", extra={"anthropic": {"cache_control": {"type": "ephemeral"}}})
    model.generate([marked, "a"], cache=True)
    assert google.calls == [GENERATE]
    assert not has_points(Request(messages=(user("a", Opaque(wire="x", data={}), marked),), system="s"))


def test_media_and_async_calls() -> None:
    async def run() -> None:
        google = Google()
        image = Image(data=picture(2, 2), mime="image/png")
        model = registry_of(google).model(MODEL)
        await model.agenerate([image, CachePoint(), "a"])
        await model.agenerate([image, CachePoint(), "b"])
        assert google.calls == [MAKE, GENERATE, GENERATE]
        assert await model.adelete_caches() == 1

    asyncio.run(run())


def test_stored_beginnings_can_be_deleted() -> None:
    google = Google()
    registry = registry_of(google)
    model = registry.model(MODEL)
    for text in ("a", "b"):
        model.generate([text * 9, CachePoint(), "?"])
    google.refusal = 400, "too small"
    model.generate(["c", CachePoint(), "?"])
    del google.stored["cachedContents/c1"]
    assert model.delete_caches() == 2
    assert google.stored == {}
    assert model.delete_caches() == 0
    assert registry.model("anthropic/claude-sonnet-5").delete_caches() == 0
    google.refusal = None
    model.generate(["d", CachePoint(), "?"])

    def fail(http: HttpRequest) -> tuple[int, Any]:
        return 400, {"error": {"message": "no"}}

    google._answer = fail  # type: ignore[method-assign]
    with pytest.raises(BadRequest):
        model.delete_caches()


def test_explain_says_where_the_beginning_ends() -> None:
    (plan,) = registry_of(Google()).model(MODEL).explain([DOC, CachePoint(), "a"])
    assert plan.cache == ("up to the last cache point, in a cachedContent that is made when the call is made",)


def test_vertex_ai_stores_contents_below_its_project() -> None:
    base = "https://europe-west1-aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/google"
    google = Google()
    model = registry_of(google).model("vertex/gemini-2.5-pro", base_url=base, api_key="k")
    model.generate(["doc", CachePoint(), "a"])
    assert google.seen[0].path == "/v1/projects/p/locations/l/cachedContents"
    assert json.loads(google.seen[0].body)["model"] == "projects/p/locations/l/publishers/google/models/gemini-2.5-pro"
    express = replace(
        model.targets()[0], base_url="https://a.googleapis.com/v1/publishers/google", provider="vertex-express"
    )
    from dragoman import wires

    hooks = wires.get("google").prompt_caches
    assert hooks is not None
    assert hooks.split(google.seen[1], None, express, 60) is None
    name = "projects/p/locations/l/cachedContents/1"
    assert hooks.delete(name, model.targets()[0]).path == "/v1/projects/p/locations/l/cachedContents/1"
