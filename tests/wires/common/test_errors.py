import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import (
    AuthFailed,
    BadRequest,
    Blocked,
    ContextTooLong,
    ModelNotFound,
    Overloaded,
    ProviderError,
    RateLimited,
    ServerFault,
)
from dragoman.http import Head
from dragoman.wires.common.errors import MAX_PROVIDER_MESSAGE, decode_http_error, encode_openai_error, error_from_json
from tests.support.values import JSON


def failure(status: int, data: object, **headers: str) -> ProviderError:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return decode_http_error(Head(status=status, headers=names), msgspec.json.encode(data))


# Every shape that servers use -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param({"error": {"message": "no", "type": "t", "param": None, "code": None}}, "no", id="OpenAI"),
        pytest.param(
            {"type": "error", "error": {"type": "t", "message": "no"}, "request_id": "r"}, "no", id="Anthropic"
        ),
        pytest.param({"error": {"code": 400, "message": "no", "status": "INVALID_ARGUMENT"}}, "no", id="Google"),
        pytest.param([{"error": {"code": 400, "message": "no"}}], "no", id="a list"),
        pytest.param({"error": "no"}, "no", id="Ollama"),
        pytest.param({"error": '{"error": {"message": "no"}}'}, "no", id="JSON in a string"),
        pytest.param('{"error": {"message": "no"}}', "no", id="JSON in a string alone"),
        pytest.param('["no"]', "no", id="a list in a string"),
        pytest.param({"error": {"message": '{"detail": "no"}'}}, '{"detail": "no"}', id="JSON in a message"),
        pytest.param({"error": {"message": '{"error": {"message": "no"}}'}}, "no", id="an error in a message"),
        pytest.param({"message": ' {"type":"error","error":{"message":"no"}}'}, "no", id="an event in a message"),
        pytest.param({"message": '{"error": '}, '{"error": ', id="half an error in a message"),
        pytest.param({"message": "no", "request_id": "r"}, "no", id="a message alone"),
        pytest.param({"msg": "no"}, "no", id="msg"),
        pytest.param({"fault": {"description": "no"}}, "no", id="a fault"),
        pytest.param({"fault": {"faultstring": "no", "detail": {"errorcode": "x"}}}, "no", id="a fault of a gateway"),
        pytest.param({"detail": "no"}, "no", id="FastAPI"),
        pytest.param({"detail": {"error": "no"}}, "no", id="an error in a detail"),
        pytest.param({"detail": {"message": "no"}, "title": "Bad"}, "no", id="a message in a detail"),
        pytest.param({"title": "Bad", "status": 400, "detail": "no"}, "no", id="a problem of RFC 9457"),
        pytest.param({"title": "Bad"}, "Bad", id="a title"),
        pytest.param({"success": False, "errors": [{"code": 7003, "message": "no"}]}, "no", id="Cloudflare"),
        pytest.param({"error": ["no", "never"]}, "no", id="a list of words"),
        pytest.param({"error": True, "message": "no"}, "no", id="a switch beside a message"),
        pytest.param({"error": {"code": 1}, "message": "no"}, "no", id="a code beside a message"),
        pytest.param({"error": {"detail": "no"}, "message": "Bad"}, "no", id="the inner words count"),
        pytest.param({"title": "Bad", "errors": {"model": ["no"]}}, "Bad", id="a title beside fields"),
        pytest.param({"error": {"error": {"message": "no"}}}, "no", id="an error in an error"),
        pytest.param({"message": {"detail": [{"loc": ["body", 0, "x"], "msg": "no"}]}}, "body.0.x: no", id="Mistral"),
        pytest.param(
            {"detail": [{"loc": ["a"], "msg": "no", "input": "long"}, {"loc": "?", "msg": "never"}]},
            "a: no; $: never",
            id="FastAPI's places",
        ),
        pytest.param({"detail": [1, {"a": 2}]}, '[1,{"a":2}]', id="a detail that is none"),
        pytest.param({"message": {"a": 1}}, '{"a":1}', id="a message that is none"),
        pytest.param(
            {"error": {"message": "Provider returned error", "metadata": {"raw": "no"}}},
            "Provider returned error: no",
            id="OpenRouter",
        ),
        pytest.param({"error": {"message": "no", "metadata": {"raw": 1}}}, "no", id="OpenRouter without raw"),
    ],
)
def test_the_message_is_found(data: object, message: str) -> None:
    assert str(failure(400, data)) == message


@pytest.mark.parametrize(
    "body", [b"", b"  \n", b"{}", b"[]", b"null", b"1", b'""', b'{"error": {}}', b'{"error": null}']
)
def test_where_nothing_is_said_the_status_is(body: bytes) -> None:
    error = decode_http_error(Head(status=503), body)
    assert (type(error), str(error)) == (Overloaded, "HTTP 503")


def test_where_nothing_is_said_inside_a_200_it_says_so() -> None:
    assert str(error_from_json({})) == "no message"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html>Bad gateway</html>\n", "<html>Bad gateway</html>"),
        (b"upstream \xff\xfe", "upstream ��"),
        (b'{"error": "caf\xe9"}', "caf�"),
        (b'{"error": ', '{"error":'),
        (b'\xef\xbb\xbf{"error": "no"}', "no"),
        (b': working\n\n{"error": "no"}', "no"),
        (b'event: error\r\ndata: {"error": {"message": "no"}}\r\n\r\ndata: [DONE]\r\n\r\n', "no"),
        (b"data: no\n\n", "data: no"),
    ],
)
def test_a_body_that_is_not_json_is_told_as_far_as_it_can_be_read(body: bytes, message: str) -> None:
    assert str(decode_http_error(Head(status=502), body)) == message


@pytest.mark.parametrize(
    "body",
    [
        b"x" * 10**6,
        msgspec.json.encode({"error": {"message": "x" * 10**6}}),
        msgspec.json.encode({"detail": ["x" * 10**6]}),
    ],
)
def test_a_huge_body_gives_a_short_message(body: bytes) -> None:
    assert len(str(decode_http_error(Head(status=400), body))) == MAX_PROVIDER_MESSAGE


@pytest.mark.parametrize("depth", [100, sys.getrecursionlimit() - 100, 10**5])
@pytest.mark.parametrize(
    ("opening", "end"),
    [('{"error":', "}"), ("[", "]"), ('{"message":', "}"), ('{"detail":', "}"), ('{"error":{"message":[', "]}}")],
)
def test_a_deep_body_is_an_error_of_ours(opening: str, end: str, depth: int) -> None:
    body = opening * depth + '"no"' + end * depth
    assert type(decode_http_error(Head(status=500), body.encode())) is ServerFault


def test_a_reason_that_is_too_deep_to_tell_is_not_told() -> None:
    deep: list[Any] = []
    for _ in range(10**6):
        deep = [deep]
    assert str(error_from_json({"message": {"a": deep}})) == "the error message is nested too deeply"


def test_json_in_a_string_in_a_string_is_opened_only_so_far() -> None:
    data: object = "no"
    for _ in range(20):
        data = msgspec.json.encode({"error": data}).decode()
    assert str(error_from_json(data)).startswith('{"error":')


@given(JSON, st.sampled_from([None, 200, 400, 500]))
def test_any_json_is_an_error_of_ours(data: object, status: int | None) -> None:
    error = error_from_json(data, None if status is None else Head(status=status))
    assert isinstance(error, ProviderError)
    assert str(error)


@given(
    st.recursive(JSON, lambda inner: st.dictionaries(st.sampled_from(["error", "detail", "message", "errors"]), inner))
)
def test_any_envelope_is_an_error_of_ours(data: object) -> None:
    assert isinstance(error_from_json(data), ProviderError)


@given(st.binary(max_size=40))
def test_any_bytes_are_an_error_of_ours(body: bytes) -> None:
    assert isinstance(decode_http_error(Head(status=500), body), ProviderError)


# Facts ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "data", "kind", "code"),
    [
        (
            429,
            {"error": {"message": "no", "type": "t", "code": "insufficient_quota"}},
            RateLimited,
            "insufficient_quota",
        ),
        (
            529,
            {"type": "error", "error": {"type": "overloaded_error", "message": "no"}},
            Overloaded,
            "overloaded_error",
        ),
        (404, {"error": {"code": "DeploymentNotFound", "message": "no"}}, ModelNotFound, "DeploymentNotFound"),
        (400, {"error": {"message": "no", "code": True}}, BadRequest, None),
        (400, {"error": {"message": "no", "code": {"a": 1}}}, BadRequest, None),
        (
            400,
            {"error": {"code": 400, "message": "no", "details": [{"@type": "x"}, {"reason": "API_KEY_INVALID"}, 1]}},
            AuthFailed,
            "API_KEY_INVALID",
        ),
        (402, {"error": {"message": "no", "details": {"error_code": "PAYMENT_METHOD_REQUIRED"}}}, RateLimited, None),
        (
            400,
            {"error": {"message": "no", "code": "x", "innererror": {"code": "ResponsibleAIPolicyViolation"}}},
            Blocked,
            "x",
        ),
        (400, {"error": {"message": "no", "innererror": "x"}}, BadRequest, None),
        (
            400,
            {"error": {"code": "400", "message": '{"error": {"message": "no", "code": "context_length_exceeded"}}'}},
            ContextTooLong,
            "context_length_exceeded",
        ),
        (
            400,
            {"type": "error", "error": {"type": "invalid_request_error", "message": "Blocked by content filtering"}},
            Blocked,
            "invalid_request_error",
        ),
        (500, {"fault": {"faultstring": "no", "detail": {"errorcode": "policies.x"}}}, ServerFault, "policies.x"),
    ],
)
def test_the_code_is_found(status: int, data: object, kind: type[ProviderError], code: str | None) -> None:
    error = failure(status, data)
    assert type(error) is kind
    assert code is None or error.code == code


@pytest.mark.parametrize(
    ("head", "data", "kind", "status"),
    [
        (None, {"error": {"message": "no", "code": 429}}, RateLimited, 429),
        (None, {"error": "no", "status_code": 503}, Overloaded, 503),
        (None, {"message": "no", "raw_status_code": 401}, AuthFailed, 401),
        (None, {"error": "no", "status_code": "503"}, ServerFault, None),
        (None, {"error": "no", "status_code": True}, ServerFault, None),
        (200, {"error": "no", "status_code": 503}, Overloaded, 503),
        (200, {"error": {"message": "no", "type": "invalid_request_error"}}, BadRequest, 400),
        (200, {"error": "no"}, ServerFault, 200),
        (400, {"error": "no", "status_code": 503}, BadRequest, 400),
    ],
)
def test_a_refusal_inside_a_200_has_the_status_that_it_tells(
    head: int | None, data: object, kind: type[ProviderError], status: int | None
) -> None:
    error = error_from_json(data, None if head is None else Head(status=head))
    assert (type(error), error.status) == (kind, status)


def test_the_header_tells_when_to_ask_again() -> None:
    data = {"error": {"message": "no", "details": [{"retryDelay": "48s"}]}}
    assert failure(429, data, retry_after="3").retry_after == 3.0


@pytest.mark.parametrize(("delay", "seconds"), [("48s", 48.0), ("34.4s", 34.4), ("soon", None), (48, None)])
def test_the_body_tells_when_to_ask_again(delay: object, seconds: float | None) -> None:
    assert failure(429, {"error": {"message": "no", "details": [{"retryDelay": delay}]}}).retry_after == seconds


def test_a_quota_that_is_full_for_the_day_is_not_worth_waiting_for() -> None:
    quota = {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}]}
    error = failure(429, {"error": {"message": "no", "details": [quota, {"retryDelay": "48s"}]}})
    assert (type(error), error.retry, error.fail_over) == (RateLimited, False, True)


def test_the_numbers_of_a_prompt_too_long_are_found() -> None:
    data = {
        "error": {"code": 400, "message": "no", "type": "exceed_context_size_error", "n_prompt_tokens": 9, "n_ctx": 8}
    }
    error = failure(400, data)
    assert isinstance(error, ContextTooLong)
    assert (error.tokens, error.limit) == (9, 8)


def test_no_key_that_a_provider_says_back_is_in_the_error() -> None:
    data = {"error": {"message": "no", "metadata": {"raw": "key sk-proj-Ab12Cd34Ef56 is wrong"}}}
    assert str(failure(401, data)) == "no: key [redacted] is wrong"


# OpenAI's words -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code"),
    [
        pytest.param(BadRequest("no", code="unsupported_parameter"), "unsupported_parameter", id="its own"),
        pytest.param(BadRequest("no", code="INVALID_ARGUMENT"), None, id="Google's status"),
        pytest.param(BadRequest("no", code="invalid_request_error"), None, id="a type"),
        pytest.param(ServerFault("no", code="1234"), None, id="a number"),
        pytest.param(ServerFault("no"), None, id="none"),
        pytest.param(Overloaded("no", code="overloaded_error"), "slow_down", id="by the kind"),
    ],
)
def test_an_openai_client_is_told_no_other_protocols_code(error: ProviderError, code: str | None) -> None:
    assert encode_openai_error(error)["code"] == code


def test_a_delay_of_more_than_a_day_is_a_day() -> None:
    assert failure(429, {"error": {"message": "no", "details": [{"retryDelay": "99999999s"}]}}).retry_after == 86400.0


def test_a_redirect_names_its_place_and_no_secret() -> None:
    error = decode_http_error(
        Head(status=301, headers={"location": "https://me:hush@example.org/v1/chat?key=hush"}), b"<html>Moved</html>"
    )
    assert error.message == ("HTTP 301 to https://example.org/v1/chat, which is not followed; check the base URL")


def test_a_redirect_without_a_place_says_what_it_says() -> None:
    assert decode_http_error(Head(status=301), b"Moved").message == "Moved"


@pytest.mark.parametrize(
    ("status", "word", "retry"),
    [(500, "false", False), (500, "true", True), (400, "true", True), (400, "perhaps", False), (429, "false", True)],
)
def test_a_provider_may_say_whether_to_retry(status: int, word: str, *, retry: bool) -> None:
    head = Head(status=status, headers={"X-Should-Retry": word})
    assert decode_http_error(head, b'{"error": {"message": "?"}}').retry is retry
