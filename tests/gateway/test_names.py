"""A name with a line break at its end is refused: `$` of a regular expression would accept it."""

import json

import pytest

from dragoman.errors import SetupError
from dragoman.gateway.config import decode_config
from tests.support.gateway.dialects import app_of, post, send_blocking
from tests.support.gateway.live import chat


@pytest.mark.parametrize("name", ["abc\n", "abc\r", "a b", ""])
def test_a_tool_of_the_native_dialect(name: str) -> None:
    tool = {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    body = json.dumps({**chat("demo/any"), "tools": [tool]}).encode()
    assert send_blocking(app_of(), post("/native/v1/chat/completions", body)).status in (400, 422)


@pytest.mark.parametrize(
    "config",
    [
        '[providers."abc\\n"]\nlike = "vllm"\nbase_url = "http://x"\n',
        '[aliases]\n"abc\\n" = "demo/any"\n',
        '[tiers."abc\\n"]\nmodels = ["demo/any"]\n',
        '[keys."abc\\n"]\nhash = "b2:1:2:3"\n',
        '[capabilities.demo]\nallowed_image_types = ["image/png\\n"]\n',
    ],
)
def test_a_name_in_the_config(config: str) -> None:
    with pytest.raises(SetupError):
        decode_config(config)
