"""A wire alone refuses what the capabilities of its target forbid: there is no need for the engine to check first."""

import re
from typing import Any

import pytest
from msgspec.structs import replace
from PIL import Image as Pillow

from dragoman import wires
from dragoman.errors import Unsupported
from dragoman.targets.target import Capabilities, Quirks, Target
from dragoman.types import Audio, Document, Image, Request, Tool, ToolResult, WebSearch, assistant, tool_results, user
from dragoman.types.data_urls import data_url
from dragoman.types.parts import ToolCall
from tests.support.images import picture, saved

PNG = Image(data=picture(40, 20), mime="image/png")
PDF = Document(data=b"%PDF", mime="application/pdf")
WAV = Audio(data=b"RIFF", mime="audio/wav")
VIDEO = Document(data=b"\x00\x00\x00\x18ftypmp42", mime="video/mp4")


FRAMES = [Pillow.new("RGB", (8, 8), color) for color in ("red", "blue")]
GIF = Image(data=saved(FRAMES[0], "image/gif", save_all=True, append_images=FRAMES[1:]), mime="image/gif")


def request_of(*parts: Any) -> Request:
    return Request(messages=(user("See:", *parts),))


RESULT = Request(
    messages=(
        user("?"),
        assistant(ToolCall(id="call_1", name="see")),
        tool_results(ToolResult(id="call_1", name="see", content=(PNG,))),
    )
)
FORBIDDEN: list[tuple[Request, dict[str, Any], str]] = [
    (Request(messages=(user("?"),), tools=(Tool(name="now"),)), {"tools": False}, "does not support tools"),
    (Request(messages=(user("?"),), schema={}), {"structured": False}, "does not support structured output"),
    (Request(messages=(user("?"),), stream=True), {"streaming": False}, "does not support streaming"),
    (request_of(PNG), {"max_images": 0}, "does not support images"),
    (RESULT, {"max_images": 0}, "does not support images"),
    (request_of(PDF), {"documents": False}, "does not support documents"),
    (request_of(WAV), {"audio": False}, "does not support audio"),
    (request_of(PNG, PNG), {"max_images": 1}, "at most 1 images are allowed, got 2"),
    (request_of(PNG), {"allowed_image_types": ("image/jpeg",)}, "does not support images of the type image/png"),
    (
        request_of(Image(url=data_url("image/png", picture()))),
        {"allowed_image_types": ("image/jpeg",)},
        "does not support images of the type image/png",
    ),
    (
        request_of(Image(data=b"?", mime="image/x-unknown")),
        {"allowed_image_types": ("image/jpeg",)},
        "does not support images of the type image/x-unknown",
    ),
    (request_of(PNG), {"max_image_bytes": 10}, "an image has .* bytes; at most 10 are allowed"),
    (request_of(PNG, PNG), {"max_images_bytes": 100}, "an image has .* bytes; at most 50 are allowed"),
    (request_of(PNG), {"max_image_side": 32}, "an image has 40 by 20 pixels; at most 32 are allowed on a side"),
    (request_of(GIF), {"animated_images": False}, "does not support animated images"),
    (
        request_of(PDF),
        {"allowed_document_types": ("text/*",)},
        "does not support documents of the type application/pdf",
    ),
    (request_of(PDF), {"max_document_bytes": 3}, "a document has 4 bytes; at most 3 are allowed"),
    (request_of(WAV), {"max_audio_bytes": 3}, "an audio file has 4 bytes; at most 3 are allowed"),
    (request_of(Document.from_url("https://x/a.pdf")), {"document_urls": False}, "cannot fetch https://x/a.pdf"),
    (request_of(VIDEO), {"video": False}, "does not support video"),
    (
        request_of(Document.from_url("https://x/a.mp4")),
        {"video": True, "video_urls": False},
        "cannot fetch https://x/a.mp4",
    ),
    (request_of(PNG, PNG, PNG), {"many_images": 2, "many_images_side": 32}, "at most 32 are allowed on a side"),
    (Request(messages=(user("?"),), tools=(WebSearch(),)), {"hosted_tools": ()}, "does not have web search"),
]


def target_of(wire: str, **capabilities: Any) -> Target:
    target = Target(provider="p", model="m", wire=wire, base_url="https://example.org")
    return replace(target, capabilities=Capabilities(**capabilities))


@pytest.mark.parametrize("wire", wires.NAMES)
@pytest.mark.parametrize(("request_", "capabilities", "why"), FORBIDDEN)
def test_a_wire_alone_refuses_what_the_target_forbids(
    wire: str, request_: Request, capabilities: dict[str, Any], why: str
) -> None:
    with pytest.raises(Unsupported, match=why):
        wires.get(wire).client.encode_request(request_, target_of(wire, **capabilities))


@pytest.mark.parametrize("wire", [name for name in wires.NAMES if name != "native"])  # a gateway fetches it
def test_a_wire_alone_refuses_an_image_that_the_target_cannot_fetch(wire: str) -> None:
    by_url = request_of(Image(url="https://x/a.png?token=hush"))
    with pytest.raises(Unsupported, match="image") as caught:
        wires.get(wire).client.encode_request(by_url, target_of(wire, image_urls=False))
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("wire", wires.NAMES)
def test_what_fits_passes(wire: str) -> None:
    client, target = wires.get(wire).client, target_of(wire, max_images=1, max_image_side=40)
    assert client.encode_request(request_of(PNG), target).body
    assert client.encode_request(RESULT, target).body
    assert client.encode_request(Request(messages=(user("?"),), tools=(Tool(name="now"),), stream=True), target).body


@pytest.mark.parametrize(
    "wire", [name for name in wires.NAMES if name != "bedrock"]
)  # Converse has a closed list of formats
def test_an_unknown_type_of_image_passes_if_the_target_allows_it(wire: str) -> None:
    unknown = request_of(Image(data=b"?", mime="image/x-unknown"))
    target = target_of(wire, allowed_image_types=("image/x-unknown",))
    assert wires.get(wire).client.encode_request(unknown, target).body


def test_a_broken_data_url_is_refused_by_the_wire() -> None:
    broken = request_of(Image(url="data:image/png;base64,?"))
    with pytest.raises(ValueError, match="base64"):
        wires.get("anthropic").client.encode_request(broken, target_of("anthropic", image_urls=True))


GATEWAY_DECIDES = "native"
"""A gateway adapts the options to its own targets."""
OPTIONS: list[tuple[dict[str, Any], dict[str, Any], tuple[str, ...]]] = [
    ({"stop": ("x",)}, {"stop": False}, ("stop",)),
    ({"seed": 1}, {"seed_field": None}, ("seed",)),
    (
        {"temperature": 0.5, "top_p": 0.5, "top_k": 3},
        {"sampling": False, "top_k": True},
        ("temperature", "top_p", "top_k"),
    ),
    (
        {"temperature": 0.5, "top_k": 3, "reasoning": "high", "max_tokens": 40000},
        {"sampling_with_reasoning": False, "top_k": True},
        ("temperature", "top_k"),
    ),
]


@pytest.mark.parametrize("wire", [name for name in wires.NAMES if name != GATEWAY_DECIDES])
@pytest.mark.parametrize(("options", "quirks", "dropped"), OPTIONS)
def test_an_option_that_the_target_does_not_take_is_dropped_with_a_notice(
    wire: str, options: dict[str, Any], quirks: dict[str, Any], dropped: tuple[str, ...]
) -> None:
    target = replace(target_of(wire), quirks=Quirks(**quirks, reasoning="budget" if wire == "bedrock" else None))
    http = wires.get(wire).client.encode_request(Request(messages=(user("?"),), **options), target)
    assert {notice.what for notice in http.notices} >= {*dropped}
    assert not re.search(rb'"(stop\w*|seed|temperature|topP|top_p|topK|top_k)":', http.body)
