"""What Chat Completions can carry."""

import msgspec
from hypothesis import strategies as st

from dragoman.targets.providers import target
from dragoman.types import Audio, Document, Finish, Image, Request, Thinking, Usage
from tests.support.wires.laws import (
    CHOICES,
    COUNTS,
    FLAGS,
    FRACTIONS,
    NAMES,
    NUMBERS,
    PENALTIES,
    SCHEMA,
    TOP,
    WORDS,
    Profile,
    token_logprobs,
)


def says_json(request: Request) -> Request:
    """JSON mode demands the word JSON in the prompt."""
    return msgspec.structs.replace(request, system="Answer in JSON.") if request.schema == {} else request


PROFILE = Profile(
    name="openai_chat",
    target=target("openai/gpt-x", api_key="k"),
    options={
        "frequency_penalty": PENALTIES,
        "presence_penalty": PENALTIES,
        "logit_bias": st.dictionaries(st.integers(0, 9**6).map(str), st.integers(-100, 100), max_size=2),
        "logprobs": FLAGS,
        "top_logprobs": TOP,
        "n": CHOICES,
        "service_tier": st.sampled_from(["auto", "default", "flex", "priority"]),
        "verbosity": st.sampled_from(["low", "medium", "high"]),
        "temperature": FRACTIONS,
        "top_p": FRACTIONS,
        "max_tokens": COUNTS,
        "stop": st.lists(WORDS, min_size=1, max_size=3).map(tuple),
        "seed": NUMBERS,
        "reasoning": st.sampled_from(["none", "minimal", "low", "medium", "high", "max"]),
        "user": WORDS,
        "metadata": st.dictionaries(NAMES, WORDS, min_size=1, max_size=2),
        "schema": st.sampled_from([SCHEMA, {}]),
        "parallel_tool_calls": st.booleans(),
    },
    media=st.one_of(
        st.builds(Image, data=st.binary(min_size=1, max_size=8), mime=st.just("image/png"), detail=st.none() | NAMES),
        st.builds(Image, url=st.just("https://example.org/a.png")),
        st.builds(Document, data=st.binary(min_size=1, max_size=8), mime=st.just("application/pdf"), name=NAMES),
        st.builds(Audio, data=st.binary(min_size=1, max_size=8), mime=st.sampled_from(["audio/wav", "audio/mpeg"])),
    ),
    thinking=st.builds(
        Thinking,
        text=WORDS,
        extra=st.sampled_from(["reasoning", "reasoning_content"]).map(
            lambda field: {"openai_chat": {"fields": [field]}}
        ),
    ),
    usage=st.builds(
        Usage,
        input=NUMBERS,
        output=NUMBERS,
        cache_read=st.none() | NUMBERS,
        cache_write=st.none() | NUMBERS,
        reasoning=st.none(),
    ),
    finishes=(
        Finish(reason="stop", raw="stop"),
        Finish(reason="length", raw="length"),
        Finish(reason="tool_calls", raw="tool_calls"),
        Finish(reason="blocked", raw="content_filter"),
    ),
    request=says_json,
    tiers=("default", "flex", "priority"),
    choices=True,
    logprobs=token_logprobs(st.none(), st.none() | st.lists(st.integers(0, 255), max_size=3).map(tuple)),
)
