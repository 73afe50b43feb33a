"""A tape holds no key that was sent, even if the provider repeats it."""

import pytest

from dragoman import DragomanError, Registry
from dragoman.testing import FaultyServer, RawResponse, Recorder

KEYS = ["sk-proj-abcdefghijklmnop", "plainkey42", "0123456789abcdef", 'odd"key\\with']


def tape(key: str, line: "str | RawResponse", *, stream: bool = False, wire: str = "openai_chat") -> bytes:
    recorder = Recorder()
    with FaultyServer(line) as upstream:
        registry = Registry(env={}, http_client=recorder)
        registry.add_provider(name="up", wire=wire, base_url=upstream.base_url(wire), api_key=key)
        try:
            if stream:
                with registry.model("up/m").stream("hi") as answer:
                    for _ in answer:
                        pass
            else:
                registry.model("up/m").generate("hi")
        except DragomanError:
            pass
    recorder.close()
    assert recorder.tape.exchanges
    return recorder.tape.encode()


@pytest.mark.parametrize("wire", ["openai_chat", "anthropic", "google"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("key", KEYS[:3])
def test_a_key_in_an_answer_is_not_recorded(key: str, stream: bool, wire: str) -> None:  # noqa: FBT001
    data = tape(key, f"Your key is {key}, and that was {key}.", stream=stream, wire=wire)
    assert key.encode() not in data
    assert b"[redacted]" in data


def test_a_key_in_an_error_is_not_recorded() -> None:
    for key in KEYS:
        body = b'{"error": {"message": "bad key %s", "code": "%s"}}' % (
            (key.encode().replace(b"\\", b"\\\\").replace(b'"', b'\\"'),) * 2
        )
        data = tape(key, RawResponse(status=400, headers={"content-type": "application/json"}, body=body))
        assert key.encode() not in data
        assert key.replace("\\", "\\\\").replace('"', '\\"').encode() not in data


def test_a_key_in_another_form_is_not_recorded() -> None:
    for form in ("cGxhaW4ga2V5Jjw0Mg==", "plain%20key%26%3C42", "plain key&amp;&lt;42"):
        assert form.encode() not in tape("plain key&<42", f"Your key is {form}.")


def test_a_key_in_pieces_of_a_stream_is_not_recorded() -> None:
    data = tape("one two three four", "zero one two three four five", stream=True)
    assert b"two" not in data
    assert b"zero [redacted] five" in data
