"""What the Responses API can carry."""

import msgspec
from hypothesis import strategies as st

from dragoman.targets.providers import target
from dragoman.types import Document, Finish, Image, Request, Response, Thinking, Usage, user
from tests.support.wires.laws import FRACTIONS, NAMES, NUMBERS, SCHEMA, TOP, WORDS, Profile, token_logprobs


def says_json(request: Request) -> Request:
    """JSON mode demands the word JSON in the input."""
    setting = (user("Answer in JSON."),) if request.schema == {} else ()
    return msgspec.structs.replace(request, messages=(*setting, *request.messages))


def names_tier(response: Response) -> Response:
    """A response always names its tier."""
    return msgspec.structs.replace(response, service_tier=response.service_tier or "default")


REASONING = st.one_of(
    st.builds(
        Thinking,
        text=WORDS,
        extra=NAMES.map(lambda name: {"openai_responses": {"id": f"rs_{name}", "encrypted_content": "gAAAA"}}),
    ),
    WORDS.map(
        lambda text: Thinking(
            text=text,
            extra={"openai_responses": {"summary": [], "content": [{"type": "reasoning_text", "text": text}]}},
        )
    ),
    st.just(Thinking(text="", redacted=True, extra={"openai_responses": {"id": "rs_1", "encrypted_content": "gAAAA"}})),
)
PROFILE = Profile(
    name="openai_responses",
    target=target("openai-responses/gpt-x", api_key="k"),
    options={
        "logprobs": st.just(True),  # noqa: FBT003 - False is the same as nothing
        "top_logprobs": TOP,
        "service_tier": st.sampled_from(["auto", "default", "flex", "priority"]),
        "verbosity": st.sampled_from(["low", "medium", "high"]),
        "temperature": FRACTIONS,
        "top_p": FRACTIONS,
        "max_tokens": st.integers(16, 10**6),
        "reasoning": st.sampled_from(["none", "minimal", "low", "medium", "high", "max"]),
        "user": WORDS,
        "metadata": st.dictionaries(NAMES, WORDS, min_size=1, max_size=2),
        "schema": st.sampled_from([SCHEMA, {}]),
        "parallel_tool_calls": st.booleans(),
    },
    media=st.one_of(
        st.builds(Image, data=st.binary(min_size=1, max_size=8), mime=st.just("image/png"), detail=st.none() | NAMES),
        st.builds(Image, url=st.just("https://example.org/a.png")),
        st.builds(
            Document, data=st.binary(min_size=1, max_size=8), mime=st.just("application/pdf"), name=st.none() | NAMES
        ),
    ),
    thinking=REASONING,
    call_extra=NAMES.map(lambda name: {"openai_responses": {"id": f"fc_{name}"}}),
    usage=st.builds(
        Usage,
        input=NUMBERS,
        output=NUMBERS,
        cache_read=NUMBERS,
        cache_write=NUMBERS,
        reasoning=NUMBERS,
    ),
    finishes=(
        Finish(reason="stop", raw="completed"),
        Finish(reason="length", raw="max_output_tokens"),
        Finish(reason="tool_calls", raw="completed"),
        Finish(reason="blocked", raw="content_filter"),
        Finish(reason="pause", raw="steered"),
        Finish(reason="other", raw="other"),
    ),
    request=says_json,
    response=names_tier,
    tiers=("default", "flex", "priority"),
    logprobs=token_logprobs(st.none(), st.none() | st.lists(st.integers(0, 255), max_size=3).map(tuple)),
)
