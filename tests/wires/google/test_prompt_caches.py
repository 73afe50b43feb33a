"""Cached contents of Gemini: how a request is divided, and the requests besides."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.engine.attempt import build_request
from dragoman.errors import Malformed
from dragoman.http import HttpRequest, HttpResponse
from dragoman.registry import Registry
from dragoman.types import Request, Tool, assistant, user
from dragoman.wires.common.prompt_caches import StoredPrompt
from dragoman.wires.google.prompt_caches import GeminiCaches

TARGET = Registry(env={}, api_key="k").target("google/gemini-3-pro-preview")
VERTEX = replace(TARGET, base_url="https://v.example/v1/projects/p/locations/l/publishers/google", model="gemini-x")
EXPRESS = replace(TARGET, base_url="https://v.example/v1/publishers/google")
CACHES = GeminiCaches()


def sent(*contents: Any, **more: Any) -> HttpRequest:
    body = {**more, "contents": [{"role": role, "parts": parts} for role, parts in contents]}
    return HttpRequest(method="POST", path="/x", body=json.dumps(body).encode())


A, B, C = {"text": "a"}, {"text": "b"}, {"text": "c"}


def test_a_request_is_divided_inside_a_content_or_after_it() -> None:
    whole = sent(("user", [A, B]), ("model", [C]), tools=[1], generationConfig={"seed": 1})
    split = CACHES.split(whole, sent(("user", [A])), TARGET, 60)
    assert split is not None
    assert json.loads(split.create.body) == {
        "tools": [1],
        "model": "models/gemini-3-pro-preview",
        "ttl": "60s",
        "contents": [{"role": "user", "parts": [A]}],
    }
    assert split.create.path == "/v1beta/cachedContents"
    assert json.loads(CACHES.use(split, "cachedContents/1").body) == {
        "cachedContent": "cachedContents/1",
        "generationConfig": {"seed": 1},
        "contents": [{"role": "user", "parts": [B]}, {"role": "model", "parts": [C]}],
    }
    after = CACHES.split(whole, sent(("user", [A, B])), TARGET, 60)
    assert after is not None
    assert after.rest["contents"] == [{"role": "model", "parts": [C]}]
    assert after.key != split.key
    longer = CACHES.split(whole, sent(("user", [A])), TARGET, 600)
    assert longer is not None
    assert longer.key == split.key


@pytest.mark.parametrize(
    "beginning",
    [
        sent(("user", [A, B]), ("model", [C])),
        sent(("user", [B])),
        sent(("model", [A])),
        sent(("user", [A]), ("model", [C]), ("user", [A])),
        sent(("user", [C]), ("model", [C])),
    ],
)
def test_a_request_that_does_not_begin_so_is_not_divided(beginning: HttpRequest) -> None:
    assert CACHES.split(sent(("user", [A, B]), ("model", [C])), beginning, TARGET, 60) is None


def test_other_requests_that_are_not_divided() -> None:
    assert CACHES.split(sent(("user", [A]), cachedContent="x"), None, TARGET, 60) is None
    assert CACHES.split(sent(("user", [A])), None, EXPRESS, 60) is None
    assert CACHES.split(HttpRequest(method="POST", path="/", body=b"[]"), None, TARGET, 60) is None


def test_the_beginning_of_a_real_request() -> None:
    request = Request(system="s", tools=(Tool(name="t"),), messages=(user("a", "b"), assistant("c"), user("d")))
    beginning = replace(request, messages=(user("a"),))
    split = CACHES.split(build_request(request, TARGET), build_request(beginning, TARGET), TARGET, 60)
    assert split is not None
    assert {"systemInstruction", "tools", "contents"} <= json.loads(split.create.body).keys()
    assert split.rest.keys() == {"contents"}


def test_names_and_paths() -> None:
    split = CACHES.split(sent(("user", [A])), None, VERTEX, 60)
    assert split is not None
    assert split.create.path == "/v1/projects/p/locations/l/cachedContents"
    assert json.loads(split.create.body)["model"] == "projects/p/locations/l/publishers/google/models/gemini-x"
    name = "projects/p/locations/l/cachedContents/1"
    renewal = CACHES.renew(name, VERTEX, 60)
    assert (renewal.method, renewal.path) == ("PATCH", f"/v1/{name}?updateMask=ttl")
    deletion = CACHES.delete("cachedContents/1", TARGET)
    assert (deletion.method, deletion.path, deletion.body) == ("DELETE", "/v1beta/cachedContents/1", b"")
    assert CACHES.delete("cachedContents/1", EXPRESS).path.endswith("/cachedContents/1")
    assert CACHES.renew("cachedContents/1", EXPRESS, 60).method == "PATCH"


def test_what_was_stored() -> None:
    body = b'{"name": "cachedContents/1", "usageMetadata": {"totalTokenCount": 9}}'
    assert CACHES.decode(HttpResponse(body=body)) == StoredPrompt("cachedContents/1", 9)
    assert CACHES.decode(HttpResponse(body=b'{"name": "cachedContents/1"}')) == StoredPrompt("cachedContents/1", None)
    with pytest.raises(Malformed, match="has no name"):
        CACHES.decode(HttpResponse(body=b"{}"))
