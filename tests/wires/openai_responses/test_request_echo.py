"""What an answer of the Responses API says back of the server that a tool runs at."""

from typing import Any

import msgspec
import pytest

from dragoman.wires.openai_responses.request_echo import read_echo


def echoed_tool(**server: Any) -> Any:
    (tool,) = read_echo(msgspec.json.encode({"tools": [{"type": "mcp", **server}]}))["tools"]
    return tool


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://example.org", "https://example.org/<redacted>"),
        ("https://me:p@hush@example.org:8443/x", "https://example.org:8443/<redacted>"),
        ("https://example.org?key=hush", "https://example.org/<redacted>"),
        ("https://[::1]:80/hush", "https://[::1]:80/<redacted>"),
        ("mcp+https://example.org/hush", "mcp+https://example.org/<redacted>"),
        ("//example.org/hush", "<redacted>"),
        ("https:/example.org/hush", "<redacted>"),
        ("me:hush@example.org/x?token=hush", "<redacted>"),
        ("https://me:hush/hush@example.org", "<redacted>"),
        ("https://example.org\\hush", "<redacted>"),
        ("https://[hush/x", "<redacted>"),
        (["https://example.org/hush"], "<redacted>"),
    ],
)
def test_no_more_than_scheme_and_host_of_a_server_is_said_back(url: Any, shown: str) -> None:
    assert echoed_tool(server_url=url) == {"type": "mcp", "server_url": shown}


@pytest.mark.parametrize(
    ("headers", "shown"),
    [
        ({"X-Key": "hush"}, {"X-Key": "<redacted>"}),
        (["X-Key: hush"], "<redacted>"),
        ("X-Key: hush", "<redacted>"),
        (None, None),
    ],
)
def test_no_value_of_a_servers_headers_is_said_back(headers: Any, shown: Any) -> None:
    assert echoed_tool(headers=headers) == {"type": "mcp", "headers": shown}


def test_the_tier_that_was_used_is_not_the_one_that_was_requested() -> None:
    assert read_echo(b'{"service_tier": "auto"}') == {}
    assert read_echo(b'{"service_tier": "flex"}') == {"service_tier": "flex"}
