"""What Ollama's chat can carry."""

from hypothesis import strategies as st

from dragoman.targets.providers import target
from dragoman.types import Finish, Image, Thinking
from tests.support.wires.laws import FLAGS, FRACTIONS, NUMBERS, PENALTIES, TOP, WORDS, Profile, token_logprobs

PNG = b"\x89PNG\r\n\x1a\n"

PROFILE = Profile(
    name="ollama",
    target=target("ollama/qwen"),
    options={
        "frequency_penalty": PENALTIES,
        "presence_penalty": PENALTIES,
        "logprobs": FLAGS,
        "top_logprobs": TOP,
        "temperature": FRACTIONS,
        "top_p": FRACTIONS,
        "top_k": NUMBERS,
        "max_tokens": NUMBERS,
        "stop": st.lists(WORDS, min_size=1, max_size=3).map(tuple),
        "seed": NUMBERS,
        "reasoning": st.sampled_from(["none", "medium"]),
    },
    media=st.builds(Image, data=st.binary(max_size=8).map(lambda rest: PNG + rest), mime=st.just("image/png")),
    thinking=st.builds(Thinking, text=WORDS, extra=st.just({"ollama": {}})),
    tool_choices=(),
    finishes=(
        Finish(reason="stop", raw="stop"),
        Finish(reason="stop", raw="load"),
        Finish(reason="length", raw="length"),
        Finish(reason="tool_calls", raw="stop"),
        Finish(reason="other"),
    ),
    ids=False,
    logprobs=token_logprobs(st.none(), st.none() | st.lists(st.integers(0, 255), max_size=3).map(tuple)),
)
