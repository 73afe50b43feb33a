"""A tape holds no key that was sent, even if the provider repeats it."""

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Mapping
from urllib.parse import quote

import pytest

from dragoman import DragomanError, Registry
from dragoman.testing import FaultyServer, RawResponse, Recorder, Tape

KEYS = ["sk-proj-abcdefghijklmnop", "plainkey42", "0123456789abcdef", 'odd"key\\with']


def tape(
    key: str,
    line: "str | RawResponse",
    *,
    stream: bool = False,
    wire: str = "openai_chat",
    headers: Mapping[str, str] | None = None,
) -> bytes:
    recorder = Recorder()
    with FaultyServer(line) as upstream:
        registry = Registry(env={}, http_client=recorder)
        registry.add_provider(
            name="up",
            wire=wire,
            base_url=upstream.base_url(wire),
            needs_key=False,
            api_key=key or None,
            headers=headers or {},
        )
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


SECRETS = {
    "x-portkey-key": "pk-Za0/+zz1",
    "cookie": "theme=dark; session=s3ss10n-Zq9",
    "x-tenant": "tenant/0123456789+abc",
}
SENT = ["pk-Za0/+zz1", "s3ss10n-Zq9", "tenant/0123456789+abc"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("secret", SENT)
def test_no_header_of_the_user_is_recorded_in_any_form(secret: str, stream: bool) -> None:  # noqa: FBT001
    data = secret.encode()
    forms = [
        secret,
        data.hex(),
        data.hex().upper(),
        quote(secret, safe=""),
        quote(secret, safe="").replace("%2F", "%2f").replace("%2B", "%2b"),
        b64encode(data).decode(),
        urlsafe_b64encode(data).decode(),
        *(b64encode(b"x" * before + data + b"y").decode() for before in range(3)),
    ]
    line = "You sent " + " and ".join(forms)
    recorded = tape("sk-another-key", line, stream=stream, headers=SECRETS).decode()
    assert [form for form in forms if form in recorded] == []


@pytest.mark.parametrize("stream", [False, True])
def test_a_key_that_is_encoded_more_than_needed_is_not_recorded(stream: bool) -> None:  # noqa: FBT001
    key = KEYS[0]
    forms = [
        "".join(f"%{ord(sign):02x}" for sign in key),
        key.replace("-", "%2D"),
        "".join(f"\\u{ord(sign):04x}" for sign in key),
        "".join(f"&#{ord(sign)};" for sign in key),
        key.replace("-", "&#x2D;"),
    ]
    assert tape(key, "You sent " + " and ".join(forms), stream=stream).count(b"[redacted]") >= len(forms)


def test_the_password_of_basic_authentication_is_not_recorded() -> None:
    header = "Basic " + b64encode(b"me:open-sesame").decode()
    recorded = tape("", "your password is open-sesame", headers={"authorization": header})
    assert b"open-sesame" not in recorded


def test_a_short_header_and_a_number_stay_on_the_tape() -> None:
    recorded = tape("100000", "production of 100000", headers={"x-environment": "production"})
    assert b"production of [redacted]" in recorded
    assert Tape.decode(recorded).exchanges


def test_a_placeholder_key_does_not_hide_the_wire() -> None:
    assert Tape.decode(tape("ollama", "I am ollama.", wire="ollama")).exchanges[0].wire == "ollama"


def test_an_error_does_not_repeat_a_secret_header() -> None:
    body = b'{"error": {"message": "bad cookie s3ss10n-Zq9, key pk-Za0/+zz1"}}'
    with FaultyServer(RawResponse(status=400, headers={"content-type": "application/json"}, body=body)) as upstream:
        registry = Registry(env={})
        registry.add_provider(
            name="up", wire="openai_chat", base_url=upstream.base_url("openai_chat"), needs_key=False, headers=SECRETS
        )
        with pytest.raises(DragomanError, match="bad cookie") as caught:
            registry.model("up/m").generate("hi")
    assert "Zq9" not in str(caught.value)
    assert "Za0" not in str(caught.value)
