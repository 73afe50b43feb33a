"""No key, token or signature of a cloud is in an error, a log, a repr or a tape, even if the server repeats it."""

import json
import logging
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from dragoman.errors import DragomanError
from dragoman.registry import Registry
from dragoman.testing import Recorder

SECRETS = {
    "AWS_ACCESS_KEY_ID": "ASIAEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI-secret-key",
    "AWS_SESSION_TOKEN": "IQoJb3JpZ2luX2VjEXAMPLE-session-token",
}
TOKEN = "eyJhbGciOi.eyJhdWQi.c2lnbmF0dXJl"


class _Echo(BaseHTTPRequestHandler):
    """Answers with everything that it got: as an error, or as the text of an answer if the path says so."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        text = "The Canonical String for this request should have been\n" + "\n".join(
            f"{name.lower()}:{value}" for name, value in self.headers.items()
        )
        if "/good/" in self.path:
            message = {"role": "assistant", "content": [{"text": text}]}
            self._send(200, {"output": {"message": message}, "stopReason": "end_turn", "usage": {"inputTokens": 1}})
        else:
            self._send(403, {"message": text, "error": {"message": text, "code": text}})

    def _send(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("x-amzn-errortype", "InvalidSignatureException")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def origin() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Echo) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


ENV = {
    "aws": {**SECRETS, "AWS_REGION": "eu-west-1"},
    "google": {"GOOGLE_CLOUD_PROJECT": "p"},
    "azure": {"AZURE_OPENAI_ENDPOINT": "https://x", "ANTHROPIC_FOUNDRY_RESOURCE": "r"},
}


@pytest.mark.parametrize("how", ["whole", "streamed"])
@pytest.mark.parametrize(
    ("spec", "cloud"),
    [
        ("bedrock/m", "aws"),
        ("bedrock-anthropic/m", "aws"),
        ("bedrock-mantle/m", "aws"),
        ("bedrock-mantle-responses/m", "aws"),
        ("vertex/m", "google"),
        ("vertex-anthropic/m", "google"),
        ("azure-deployments/m", "azure"),
        ("azure-anthropic/m", "azure"),
    ],
)
def test_an_error_that_repeats_the_request(
    spec: str, cloud: str, how: str, origin: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    api_key = None if cloud == "aws" else lambda: TOKEN
    registry = Registry(env=ENV[cloud])
    model = registry.model(spec, base_url=f"{origin}/v1", api_key=api_key, retries=0)
    with pytest.raises(DragomanError, match="Canonical String") as caught:
        model.generate("hi") if how == "whole" else list(model.stream("hi"))
    error = caught.value
    shown = [str(error), repr(error), repr(error.code), repr(error.attempts), repr(model), caplog.text]
    shown += [repr(error.__cause__), repr(model.explain("hi"))]
    for text in shown:
        for secret in (SECRETS["AWS_SECRET_ACCESS_KEY"], SECRETS["AWS_SESSION_TOKEN"], TOKEN):
            assert secret not in text
    assert "[redacted]" in str(error)
    registry.close()


def test_a_tape_of_an_answer_that_repeats_the_request(origin: str) -> None:
    recorder = Recorder()
    model = Registry(env=ENV["aws"], http_client=recorder).model("bedrock/m", base_url=f"{origin}/good")
    assert SECRETS["AWS_SESSION_TOKEN"] in model.generate("hi").text
    recorder.close()
    tape = recorder.tape.encode().decode()
    assert "[redacted]" in tape
    assert SECRETS["AWS_SESSION_TOKEN"] not in tape
    assert SECRETS["AWS_SECRET_ACCESS_KEY"] not in tape
