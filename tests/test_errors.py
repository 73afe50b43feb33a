import copy
import inspect
import pickle
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import errors
from dragoman.errors import (
    AuthFailed,
    BadRequest,
    Blocked,
    ChainExhausted,
    ConnectFailed,
    ContextTooLong,
    DragomanError,
    EmptyResponse,
    Interrupted,
    InvalidRequest,
    InvalidTool,
    Malformed,
    MalformedToolCall,
    MaxSteps,
    ModelNotFound,
    OutputError,
    Overloaded,
    ProviderError,
    RateLimited,
    RequestError,
    RequestTooLarge,
    Reset,
    ServerFault,
    SetupError,
    StoreDown,
    TimedOut,
    TooLarge,
    ToolLoop,
    TransportError,
    Truncated,
    Unsupported,
    WireError,
    explain_validation,
    redact,
)
from dragoman.types import Attempt, Finish, Response, Usage, assistant
from dragoman.wires.common.classify import classify

ALL = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, DragomanError)]
TRANSIENT, ELSEWHERE, STOP = (True, True, True), (False, True, False), (False, False, False)
"""The three common rows of the table: retry, fail_over, count_failure."""


def facts(error: DragomanError) -> tuple[bool, bool, bool]:
    return error.retry, error.fail_over, error.count_failure


# The table of spec 1 --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "kind", "expected"),
    [
        (400, BadRequest, STOP),
        (401, AuthFailed, ELSEWHERE),
        (402, RateLimited, (False, True, True)),
        (403, AuthFailed, ELSEWHERE),
        (404, ModelNotFound, ELSEWHERE),
        (405, BadRequest, STOP),
        (408, ServerFault, TRANSIENT),
        (409, ServerFault, TRANSIENT),
        (410, ModelNotFound, ELSEWHERE),
        (413, RequestTooLarge, ELSEWHERE),
        (418, ServerFault, TRANSIENT),
        (422, BadRequest, STOP),
        (424, ServerFault, TRANSIENT),
        (429, RateLimited, TRANSIENT),
        (498, Overloaded, TRANSIENT),
        (500, ServerFault, TRANSIENT),
        (502, ServerFault, TRANSIENT),
        (503, Overloaded, TRANSIENT),
        (504, ServerFault, TRANSIENT),
        (520, ServerFault, TRANSIENT),
        (524, ServerFault, TRANSIENT),
        (529, Overloaded, TRANSIENT),
        (599, ServerFault, TRANSIENT),
        (301, ServerFault, ELSEWHERE),
        (302, ServerFault, ELSEWHERE),
        (308, ServerFault, ELSEWHERE),
        (200, ServerFault, TRANSIENT),
        (None, ServerFault, TRANSIENT),
    ],
)
def test_a_status_has_its_class_and_facts(
    status: int | None, kind: type[ProviderError], expected: tuple[bool, bool, bool]
) -> None:
    error = classify("no", status=status)
    assert (type(error), facts(error), error.status) == (kind, expected, status)


@pytest.mark.parametrize(
    ("code", "kind", "expected"),
    [
        ("invalid_api_key", AuthFailed, ELSEWHERE),
        ("authentication_error", AuthFailed, ELSEWHERE),
        ("permission_error", AuthFailed, ELSEWHERE),
        ("PERMISSION_DENIED", AuthFailed, ELSEWHERE),
        ("API_KEY_INVALID", AuthFailed, ELSEWHERE),
        ("UNAUTHENTICATED", AuthFailed, ELSEWHERE),
        ("rate_limit_error", RateLimited, TRANSIENT),
        ("rate_limit_exceeded", RateLimited, TRANSIENT),
        ("insufficient_quota", RateLimited, (False, True, True)),
        ("billing_error", RateLimited, (False, True, True)),
        ("overloaded_error", Overloaded, TRANSIENT),
        ("UNAVAILABLE", Overloaded, TRANSIENT),
        ("capacity_exceeded", Overloaded, TRANSIENT),
        ("context_length_exceeded", ContextTooLong, ELSEWHERE),
        ("exceed_context_size_error", ContextTooLong, ELSEWHERE),
        ("model_context_window_exceeded", ContextTooLong, ELSEWHERE),
        ("content_filter", Blocked, STOP),
        ("content_policy_violation", Blocked, STOP),
        ("ResponsibleAIPolicyViolation", Blocked, STOP),
        ("model_not_found", ModelNotFound, ELSEWHERE),
        ("not_found_error", ModelNotFound, ELSEWHERE),
        ("DeploymentNotFound", ModelNotFound, ELSEWHERE),
        ("request_too_large", RequestTooLarge, ELSEWHERE),
        ("tool_use_failed", BadRequest, (True, True, False)),
        ("json_validate_failed", BadRequest, (True, True, False)),
    ],
)
@pytest.mark.parametrize("status", [None, 200, 400, 500])
def test_a_code_says_more_than_the_status(
    code: str, kind: type[ProviderError], expected: tuple[bool, bool, bool], status: int | None
) -> None:
    error = classify("no", status=status, codes=(None, "", "unknown_code", code))
    assert (type(error), facts(error), error.code) == (kind, expected, "unknown_code")


@pytest.mark.parametrize(
    ("code", "kind", "status"),
    [
        ("invalid_request_error", BadRequest, 400),
        ("INVALID_ARGUMENT", BadRequest, 400),
        ("NOT_FOUND", ModelNotFound, 404),
        ("RESOURCE_EXHAUSTED", RateLimited, 429),
        ("api_error", ServerFault, 500),
        ("INTERNAL", ServerFault, 500),
        ("timeout_error", ServerFault, 504),
        (403, AuthFailed, 403),
        ("429", RateLimited, 429),
        (600, ServerFault, 200),
        ("²²²", ServerFault, 200),
        ("4" * 5000, ServerFault, 200),
    ],
)
def test_inside_a_200_the_code_stands_for_the_status(code: str | int, kind: type[ProviderError], status: int) -> None:
    error = classify("no", status=200, codes=(code,))
    assert (type(error), error.status) == (kind, status)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Unsupported("no"), ELSEWHERE),
        (InvalidRequest("no"), STOP),
        (InvalidTool("no"), STOP),
        (RequestError("no"), STOP),
        (AuthFailed("no key"), ELSEWHERE),
        (Malformed("no"), TRANSIENT),
        (Truncated("no"), TRANSIENT),
        (TooLarge("no"), TRANSIENT),
        (WireError("no"), TRANSIENT),
        (MalformedToolCall("no"), (True, True, False)),
        (ConnectFailed("no"), TRANSIENT),
        (TimedOut("no"), TRANSIENT),
        (Reset("no"), TRANSIENT),
        (TransportError("no"), TRANSIENT),
        (EmptyResponse("no"), ELSEWHERE),
        (Interrupted("no"), (False, False, True)),
        (OutputError("no"), STOP),
        (ToolLoop("no"), STOP),
        (MaxSteps("no"), STOP),
        (StoreDown("no"), (True, False, False)),
        (ChainExhausted("no"), STOP),
        (DragomanError("no"), TRANSIENT),
        (DragomanError("no", retry=False, fail_over=False, count_failure=False), STOP),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_fault_has_its_facts(error: DragomanError, expected: tuple[bool, bool, bool]) -> None:
    assert facts(error) == expected


def test_a_request_larger_than_a_minutes_tokens_is_not_a_matter_of_waiting() -> None:
    error = classify("Request too large", status=413, codes=("rate_limit_exceeded", "tokens"))
    assert (type(error), facts(error)) == (RequestTooLarge, ELSEWHERE)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing."),
        (403, "Your team has either used all available credits or reached its monthly spending limit."),
        (429, "Your team has either used all available credits or reached its monthly spending limit."),
        (403, "You have run out of credits or need a subscription."),
        (400, "Insufficient balance"),
    ],
)
def test_an_account_without_credit_is_left_to_the_next_target(status: int, message: str) -> None:
    error = classify(message, status=status, codes=("invalid_request_error",))
    assert (type(error), facts(error)) == (RateLimited, (False, True, True))


@pytest.mark.parametrize("status", [400, 413])
def test_a_request_that_is_too_large_keeps_its_status(status: int) -> None:
    assert classify("32 MB", status=status, codes=("request_too_large",)).http_status == 413


def test_credit_that_comes_back_is_worth_waiting_for() -> None:
    assert facts(classify("budget in flight", status=402, retry_after=3.0)) == TRANSIENT


# Prose ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "tokens", "limit"),
    [
        ("prompt is too long: 208310 tokens > 200000 maximum", 208310, 200000),
        ("input length and `max_tokens` exceed context limit: 199211 + 20000 > 200000, decrease input", 219211, 200000),
        ("The input token count (1250074) exceeds the maximum number of tokens allowed (1048576).", 1250074, 1048576),
        ("request (2009 tokens) exceeds the available context size (512 tokens), try increasing it", 2009, 512),
        (
            "This model's maximum context length is 8,192 tokens. However, you requested 10,010 tokens (9000 in the "
            "messages, 1010 in the completion). Please reduce the length of the messages or completion.",
            10010,
            8192,
        ),
        (
            "This model's maximum context length is 131072 tokens. You requested 140000 tokens: 500 in the messages",
            140000,
            131072,
        ),
        ("This model's maximum prompt length is 131072 but the request contains 537812 tokens.", 537812, 131072),
        ("Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length", 40000, 32768),
        ("prompt token count of 130000 exceeds the limit of 128000", 130000, 128000),
        ("Your input exceeds the context window of this model.", None, None),
        ("the prompt is too long; exceeded max context length by 2000 tokens", None, None),
        ("input length exceeds maximum context length", None, None),
        ("Too many input tokens. The maximum is 4096.", None, 4096),
        ("The total length of all messages is too long.", None, None),
        ("Input is too long for requested model.", None, None),
        ("Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000.", 300000, 272000),
        ("context length exceeded: " + "9" * 5000, None, None),
    ],
)  # fmt: skip
def test_a_prompt_too_long_is_known_by_its_words_with_the_numbers(
    message: str, tokens: int | None, limit: int | None
) -> None:
    error = classify(message, status=400, codes=("invalid_request_error",))
    assert isinstance(error, ContextTooLong)
    assert (error.tokens, error.limit) == (tokens, limit)


def test_reported_numbers_count_before_those_in_the_message() -> None:
    error = classify("4000 tokens > 3000", codes=("exceed_context_size_error",), tokens=2009, limit=512)
    assert isinstance(error, ContextTooLong)
    assert (error.tokens, error.limit) == (2009, 512)


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("API key not valid. Please pass a valid API key.", AuthFailed),
        ("Incorrect API key provided", AuthFailed),
        ("model 'absent' not found", ModelNotFound),
        ("invalid/x is not a valid model ID", ModelNotFound),
        ("Invalid model: x", ModelNotFound),
        ("The supported API model names are a or b", ModelNotFound),
        ("Content violates usage guidelines", Blocked),
        ("Your input was flagged for violence", Blocked),
        ("temperature must be below 2", BadRequest),
    ],
)
def test_prose_is_read_where_a_400_says_nothing_else(message: str, kind: type[ProviderError]) -> None:
    assert type(classify(message, status=400, codes=("invalid_request_error",))) is kind


@pytest.mark.parametrize(
    ("status", "kind"), [(401, AuthFailed), (402, RateLimited), (429, RateLimited), (500, ServerFault)]
)
def test_prose_is_not_read_where_the_status_is_clear(status: int, kind: type[ProviderError]) -> None:
    assert type(classify("context length; model x not found; moderation", status=status)) is kind


@given(st.text(), st.integers(-1, 1000) | st.none(), st.lists(st.text() | st.integers() | st.none()).map(tuple))
def test_any_refusal_has_a_class(message: str, status: int | None, codes: tuple[str | int | None, ...]) -> None:
    assert isinstance(classify(message, status=status, codes=codes), ProviderError)


# Flat facts -----------------------------------------------------------------------------------------------------------


def test_the_facts_are_flat() -> None:
    error = DragomanError(
        "no", provider="groq", model="llama", status=503, code="busy", retry_after=2.0, usage=Usage(input=3)
    )
    attributes = (error.message, error.provider, error.model, error.status, error.code, error.retry_after, error.usage)
    assert attributes == ("no", "groq", "llama", 503, "busy", 2.0, Usage(input=3))


def test_facts_that_are_not_set_are_none() -> None:
    error = DragomanError("no")
    assert [error.provider, error.model, error.status, error.code, error.retry_after, error.usage] == [None] * 6


OWN: list[tuple[type[DragomanError], dict[str, Any]]] = [
    (ContextTooLong, {"tokens": 5, "limit": 4}),
    (MalformedToolCall, {"id": "a", "name": "tide", "text": "{"}),
    (Interrupted, {"partial": Response(message=assistant("So"), finish=Finish(reason="other"))}),
    (OutputError, {"text": "4", "reasons": ("$: not an object",)}),
    (ToolLoop, {"result": "transcript"}),
    (MaxSteps, {"result": "transcript"}),
    (ChainExhausted, {"attempts": (Attempt(target="groq/llama", outcome="failed"),)}),
]


@pytest.mark.parametrize(("kind", "own"), OWN)
def test_an_error_has_its_own_facts_beside_the_flat_ones(kind: type[DragomanError], own: dict[str, Any]) -> None:
    error = kind("no", provider="groq", **own)
    assert {**own, "provider": "groq"}.items() <= vars(error).items()


@pytest.mark.parametrize("kind", ALL)
def test_an_error_survives_pickling_and_copying(kind: type[DragomanError]) -> None:
    error = kind("no", provider="groq", status=503, usage=Usage(input=3))
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):  # noqa: S301 - our own bytes
        assert (type(twin), str(twin), vars(twin)) == (kind, "no", vars(error))


@pytest.mark.parametrize("kind", ALL)
def test_a_server_answers_an_error_with_an_error(kind: type[DragomanError]) -> None:
    assert 400 <= kind.http_status < 600


def test_a_wrong_set_up_is_an_error_that_no_other_target_can_mend() -> None:
    error = SetupError("unknown provider 'grok'")
    assert isinstance(error, DragomanError)
    assert (error.retry, error.fail_over, error.count_failure) == (False, False, False)


def test_an_invalid_request_is_a_value_error() -> None:
    assert issubclass(InvalidRequest, ValueError)


# Keys -----------------------------------------------------------------------------------------------------------------

KEYS = [
    "sk-proj-Ab12Cd34Ef56Gh78",
    "sk-ant-api03-Ab12Cd34_Ef56-Gh78",
    "sk-or-v1-0123456789abcdef",
    "sk-proj-********************1234",
    "gsk_Ab12Cd34Ef56Gh78",
    "xai-Ab12Cd34Ef56Gh78",
    "csk-ab12cd34ef56gh78",
    "hf_AbCdEfGhIjKlMnOp",
    "nvapi-Ab12Cd34-Ef56",
    "tgp_v1_Ab12Cd34Ef56",
    "pplx-ab12cd34ef56",
    "r8_Ab12Cd34Ef56",
    "fw_3ZabCdEfGh",
    "key-0123456789abcdef",
    "AIzaSyAb12Cd34Ef56Gh78",
    "AKIAIOSFODNN7EXAMPLE",  # pragma: allowlist secret
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",  # pragma: allowlist secret
    "ghp_Ab12Cd34Ef56Gh78Ij90",
    "github_pat_Ab12Cd34Ef56Gh78",
    "glpat-Ab12Cd34Ef56Gh78",
    "xoxb-123456789012-Ab12Cd34",  # pragma: allowlist secret
]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("text", ["{}", "Incorrect API key provided: {}.", '{{"key":"{}"}}', "https://x/y?key={}&z=1"])
def test_no_key_is_in_an_error(text: str, key: str) -> None:
    error = classify(text.format(key), status=401)
    assert key not in str(error)
    assert "[redacted]" in error.message


@pytest.mark.parametrize(
    "text",
    [
        "Bearer 0a1b2c3d4e5f",
        "api key: 0a1b2c3d4e5f",
        "API_KEY=0a1b2c3d4e5f",
        "GET /v1?key=0a1b2c3d4e5f&alt=sse",
        "Incorrect API key provided: 0a1b2c3d4e5f",
        "postgres://ann:0a1b2c3d4e5f@db/tides",
        "redis://:0a1b2c3d4e5f@db:6379/0",
        "cannot connect to https://user:0a1b2c3d4e5f@host/v1",
    ],
)
def test_no_key_without_a_form_is_where_a_key_stands(text: str) -> None:
    assert "0a1b2c3d4e5f" not in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "unknown field key_performance_indicator",
        "Expected Bearer authentication",
        "api_key: required",
        "model 'gpt-5.2-mini' does not exist",
        "task-oriented is no mode",
        "no answer from http://127.0.0.1:8080/v1 for ann@tides.example",
        "tool_use ids must be unique: toolu_01A09q90qw90lq917835lq9",
    ],
)
def test_words_are_left_as_they_are(text: str) -> None:
    assert redact(text) == text


def test_a_key_in_a_code_is_blotted_out() -> None:
    assert DragomanError("no", code="sk-proj-12345678").code == "[redacted]"


class Port(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    depth: int | None = None
    kind: Literal["sea", "river"] = "sea"


@pytest.mark.parametrize(
    ("value", "path", "reason"),
    [
        ({"name": 1}, ".name", "must be str, got int"),
        ({"name": "a", "depth": "1"}, ".depth", "must be int, got str"),
        ({}, ".name", "is required"),
        ({"name": "a", "x": 1}, ".x", "is not a known field"),
        ({"name": "a", "kind": "lake"}, ".kind", "must be a known value, got 'lake'"),
        ([], "", "must be object, got array"),
    ],
)
def test_a_refused_field_is_explained(value: object, path: str, reason: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(value, Port)
    assert explain_validation(caught.value) == (path, reason)


def test_an_unknown_refusal_is_repeated() -> None:
    assert explain_validation(ValueError("JSON is malformed")) == ("", "is invalid: JSON is malformed")


def test_a_read_timeout_says_whether_the_head_had_come() -> None:
    assert not errors.ReadTimeout("late").has_head
    assert errors.ReadTimeout("late", has_head=True, limit_name="total").limit_name == "total"
    wrong: Any = 1
    with pytest.raises(errors.InvalidRequest, match=r"^has_head must be True or False, got int$") as refused:
        errors.ReadTimeout("late", has_head=wrong)
    assert refused.value.param == "has_head"


def test_a_long_message_is_cut() -> None:
    assert str(BadRequest("x" * errors.MAX_ERROR_MESSAGE)) == "x" * errors.MAX_ERROR_MESSAGE
    assert (
        str(BadRequest("x" * errors.MAX_ERROR_MESSAGE + "yy"))
        == "x" * errors.MAX_ERROR_MESSAGE + "… (2 more characters)"
    )


def test_an_error_names_its_target_as_an_attempt_does() -> None:
    assert BadRequest("no", provider="groq", model="llama").target == "groq/llama"
    assert BadRequest("no").target is BadRequest("no", provider="groq").target is None
