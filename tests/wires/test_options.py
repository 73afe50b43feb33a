"""Options that few targets have: each is sent, or a notice says that it is not."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman import wires
from dragoman.errors import InvalidRequest, Unsupported
from dragoman.http import HttpRequest
from dragoman.targets.target import Quirks, Target
from dragoman.types import Request, user
from dragoman.wires.common.notices import NoticeCollector
from dragoman.wires.common.options import encode_rare_options, encode_tier, tier_word

ASKED = Request(messages=(user("hi"),), max_tokens=50)
OPTIONS: dict[str, Any] = {
    "frequency_penalty": 0.5,
    "presence_penalty": -0.5,
    "logit_bias": {"5": 1},
    "logprobs": True,
    "top_logprobs": 3,
    "n": 2,
    "service_tier": "priority",
    "verbosity": "low",
    "user": "u1",
}
SENT: dict[str, dict[str, Any]] = {
    "openai_chat": {**{name: {name: value} for name, value in OPTIONS.items()}, "top_logprobs": {"top_logprobs": 3}},
    "openai_responses": {
        "logprobs": {"include": ["reasoning.encrypted_content", "message.output_text.logprobs"]},
        "top_logprobs": {"top_logprobs": 3},
        "service_tier": {"service_tier": "priority"},
        "verbosity": {"text": {"verbosity": "low"}},
        "user": {"user": "u1"},
    },
    "anthropic": {"service_tier": {"service_tier": "auto"}, "user": {"metadata": {"user_id": "u1"}}},
    "google": {
        "frequency_penalty": {"generationConfig": {"maxOutputTokens": 50, "frequencyPenalty": 0.5}},
        "presence_penalty": {"generationConfig": {"maxOutputTokens": 50, "presencePenalty": -0.5}},
        "logprobs": {"generationConfig": {"maxOutputTokens": 50, "responseLogprobs": True}},
        "top_logprobs": {"generationConfig": {"maxOutputTokens": 50, "responseLogprobs": True, "logprobs": 3}},
        "n": {"generationConfig": {"maxOutputTokens": 50, "candidateCount": 2}},
        "service_tier": {"serviceTier": "priority"},
    },
    "google_interactions": {"service_tier": {"service_tier": "priority"}},
    "ollama": {
        "frequency_penalty": {"options": {"num_predict": 50, "frequency_penalty": 0.5}},
        "presence_penalty": {"options": {"num_predict": 50, "presence_penalty": -0.5}},
        "logprobs": {"logprobs": True},
        "top_logprobs": {"logprobs": True, "top_logprobs": 3},
    },
    "bedrock": {"service_tier": {"serviceTier": {"type": "priority"}}},
    "native": {},
}
"""By wire: what an option adds to the body; options that are not here are dropped with a notice."""


def target(wire: str, **quirks: Any) -> Target:
    return Target(provider="up", model="m", wire=wire, base_url="http://up.invalid/v1", quirks=Quirks(**quirks))


def sent(wire: str, request: Request, **quirks: Any) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    http = wires.get(wire).client.encode_request(request, target(wire, **quirks))
    return json.loads(http.body), [(notice.kind, notice.what) for notice in http.notices]


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("wire", wires.NAMES)
def test_an_option_is_sent_or_a_notice_says_that_it_is_not(wire: str, option: str) -> None:
    plain, _ = sent(wire, ASKED)
    body, notices = sent(wire, replace(ASKED, **{option: OPTIONS[option]}))
    if option in SENT[wire]:
        assert body.items() >= SENT[wire][option].items()
        assert notices in ([], [("changed", option)])
    else:
        assert body == plain
        assert ("dropped", option) in notices


@pytest.mark.parametrize("option", [name for name in OPTIONS if name != "user"])
def test_a_target_that_lacks_an_option_of_its_wire_is_not_sent_it(option: str) -> None:
    request = replace(ASKED, **{option: OPTIONS[option]})
    body, notices = sent("openai_chat", request, unsupported=("logprobs", option))
    assert option not in body
    assert ("dropped", option) in notices


@pytest.mark.parametrize("option", ["frequency_penalty", "presence_penalty", "logit_bias", "logprobs", "top_logprobs"])
def test_a_model_without_sampling_takes_no_options_of_it(option: str) -> None:
    body, notices = sent("openai_chat", replace(ASKED, **{option: OPTIONS[option]}), sampling=False)
    assert option not in body
    assert ("dropped", option) in notices


NEUTRAL: dict[str, Any] = {
    "frequency_penalty": 0.0,
    "presence_penalty": 0,
    "logit_bias": {},
    "logprobs": False,
    "top_logprobs": 0,
    "n": 1,
    "service_tier": "auto",
}


@pytest.mark.parametrize("option", NEUTRAL)
@pytest.mark.parametrize("wire", wires.NAMES)
def test_a_value_that_is_the_default_is_no_loss(wire: str, option: str) -> None:
    assert sent(wire, replace(ASKED, **{option: NEUTRAL[option]}))[1] == []


def test_a_field_of_extra_wins_and_needs_no_notice() -> None:
    request = replace(ASKED, n=2, logit_bias={"5": 1}, extra={"openai_chat": {"n": 3, "logit_bias": {"6": 1}}})
    body, notices = sent("openai_chat", request, unsupported=("logit_bias",))
    assert (body["n"], body["logit_bias"], notices) == (3, {"6": 1}, [])


def test_strict_refuses_a_target_that_lacks_an_option() -> None:
    with pytest.raises(Unsupported, match="n: anthropic: not supported"):
        sent("anthropic", replace(ASKED, n=2, strict=True))


@pytest.mark.parametrize(
    ("wire", "tier", "field", "notices"),
    [
        ("openai_chat", "standard", "default", []),
        ("openai_chat", "on_demand", "on_demand", []),
        ("openai_responses", "standard_only", "default", []),
        ("anthropic", "default", "standard_only", []),
        ("anthropic", "priority", "auto", [("changed", "service_tier")]),
        ("anthropic", "flex", None, [("dropped", "service_tier")]),
        ("google", "default", "standard", []),
        ("google", "auto", None, []),
        ("google_interactions", "default", "standard", []),
        ("google_interactions", "scale", None, [("dropped", "service_tier")]),
        ("bedrock", "standard", {"type": "default"}, []),
        ("bedrock", "scale", None, [("dropped", "service_tier")]),
    ],
)
def test_a_service_tier_is_sent_in_the_words_of_the_wire(wire: str, tier: str, field: Any, notices: Any) -> None:
    body, seen = sent(wire, replace(ASKED, service_tier=tier))
    assert (body.get("service_tier", body.get("serviceTier")), seen) == (field, notices)


def test_a_tier_of_a_wire_without_a_usual_one() -> None:
    assert encode_tier("standard", {"flex": "flex"}, NoticeCollector("w")) is None
    assert tier_word(None, "default") is None


def test_no_options_cost_nothing() -> None:
    assert encode_rare_options(Request(), target("openai_chat"), {}, {}, NoticeCollector("w")) == {}


# Clients of the gateway ----------------------------------------------------------------------------------------------

DECODED: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "openai_chat": ("/v1/chat/completions", OPTIONS, OPTIONS),
    "openai_responses": (
        "/v1/responses",
        {
            "include": ["message.output_text.logprobs"],
            "top_logprobs": 3,
            "service_tier": "flex",
            "text": {"verbosity": "low"},
        },
        {"logprobs": True, "top_logprobs": 3, "service_tier": "flex", "verbosity": "low"},
    ),
    "anthropic": (
        "/v1/messages",
        {"service_tier": "standard_only", "metadata": {"user_id": "u1"}},
        {"service_tier": "standard_only", "user": "u1"},
    ),
    "google": (
        "/v1beta/models/m:generateContent",
        {
            "generationConfig": {
                "frequencyPenalty": 0.5,
                "presencePenalty": -0.5,
                "responseLogprobs": True,
                "logprobs": "3",
                "candidateCount": 2,
            },
            "service_tier": "SERVICE_TIER_FLEX",
        },
        {
            "frequency_penalty": 0.5,
            "presence_penalty": -0.5,
            "logprobs": True,
            "top_logprobs": 3,
            "n": 2,
            "service_tier": "flex",
        },
    ),
    "ollama": (
        "/api/chat",
        {"logprobs": True, "top_logprobs": 3, "options": {"frequency_penalty": 0.5, "presence_penalty": -0.5}},
        {"logprobs": True, "top_logprobs": 3, "frequency_penalty": 0.5, "presence_penalty": -0.5},
    ),
    "google_interactions": ("/v1beta/interactions", {"service_tier": "flex"}, {"service_tier": "flex"}),
    "bedrock": ("/model/m/converse", {"serviceTier": {"type": "flex"}}, {"service_tier": "flex"}),
}


@pytest.mark.parametrize("wire", DECODED)
def test_a_client_sets_an_option_in_its_own_words(wire: str) -> None:
    path, fields, expected = DECODED[wire]
    http = HttpRequest(method="POST", path=path, body=json.dumps(fields).encode())
    _, request = wires.get(wire).server.decode_request(http)
    assert {name: getattr(request, name) for name in expected} == expected


def test_a_service_tier_that_is_none_is_kept_as_it_came() -> None:
    http = HttpRequest(method="POST", path="/model/m/converse", body=b'{"serviceTier": {"kind": "x"}}')
    _, request = wires.get("bedrock").server.decode_request(http)
    assert (request.service_tier, request.extra) == (None, {"bedrock": {"serviceTier": {"kind": "x"}}})


@pytest.mark.parametrize("tier", ["", "unspecified"])
def test_a_service_tier_without_a_choice_is_none(tier: str) -> None:
    body = json.dumps({"serviceTier": tier}).encode()
    http = HttpRequest(method="POST", path="/v1beta/models/m:generateContent", body=body)
    assert wires.get("google").server.decode_request(http)[1].service_tier is None


def test_top_logprobs_of_responses_without_logprobs_have_no_effect() -> None:
    http = HttpRequest(method="POST", path="/v1/responses", body=b'{"input": "hi", "top_logprobs": 3}')
    _, request = wires.get("openai_responses").server.decode_request(http)
    assert (request.top_logprobs, request.logprobs) == (None, None)
    assert sent("openai_responses", request)[0]["top_logprobs"] == 3


# Ranges ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("frequency_penalty", 2.1),
        ("frequency_penalty", float("nan")),
        ("presence_penalty", "1"),
        ("logit_bias", {"5": 101}),
        ("logit_bias", {"5": True}),
        ("logit_bias", {5.5: 1}),
        ("logit_bias", [5]),
        ("logprobs", 1),
        ("top_logprobs", 21),
        ("top_logprobs", True),
        ("n", 0),
        ("n", 129),
        pytest.param("n", 10**5000, id="huge"),
        ("n", "2"),
        ("service_tier", 1),
        ("verbosity", "brief"),
        ("temperature", -0.1),
        ("temperature", float("inf")),
        ("top_p", 1.1),
        ("top_k", -2),
        ("max_tokens", -2),
        ("seed", 2**63),
        ("reasoning", "hgih"),
        ("reasoning", -1),
        ("reasoning", True),
        ("reasoning", ["low"]),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_of_its_option(option: str, value: Any) -> None:
    with pytest.raises(InvalidRequest, match=f"^{option} must be ") as caught:
        Request(**{option: value})
    assert caught.value.param == option


def test_alternatives_without_log_probabilities_are_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"^logprobs must be True if top_logprobs"):
        Request(logprobs=False, top_logprobs=2)


def test_token_ids_of_a_bias_may_be_numbers() -> None:
    assert Request(logit_bias={50256: -100}).logit_bias == {"50256": -100}  # type: ignore[dict-item]
