"""Paths that no wire translates go to a provider as they are, within the limits of the client's key."""

import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import SetupError
from dragoman.gateway.auth.api_keys import hash_key
from dragoman.gateway.config import decode_config
from dragoman.testing import FaultyServer, RawResponse
from tests.support.clock import slowness
from tests.support.gateway.live import Gateway, record

ALICE = "dgm-alice-000000000000000000000000"
BOB = "dgm-bob-00000000000000000000000000"
CAROL = "dgm-carol-000000000000000000000000"
AUDIO = bytes(range(256)) * 4000
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def upstream() -> Iterator[FaultyServer]:
    with FaultyServer() as server:
        yield server


@pytest.fixture(scope="module")
def gateway(upstream: FaultyServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    config = f"""{record("up", upstream.base_url())}
[pass_through]
providers = ["up"]
images = "up"
audio = "up"
moderations = "up"
[keys.alice]
hash = "{hash_key(ALICE)}"
[keys.bob]
hash = "{hash_key(BOB)}"
models = ["up/dall-e-3"]
[keys.carol]
hash = "{hash_key(CAROL)}"
budgets = [{{ per = "day", dollars = 1 }}]
[keys.operator]
hash = "{hash_key("dgm-operator-0000000000000000000000")}"
admin = true
"""
    with Gateway(tmp_path_factory.mktemp("through"), config) as running:
        yield running


def client(gateway: Gateway, key: str = ALICE, base: str = "/v1") -> Any:
    from openai import OpenAI

    return OpenAI(base_url=f"{gateway.url}{base}", api_key=key, max_retries=0)


def reply(upstream: FaultyServer, value: object, status: int = 200) -> None:
    upstream.add(RawResponse(status=status, headers=JSON, body=json.dumps(value).encode()))


def rows(gateway: Gateway) -> list[Any]:
    return [json.loads(line) for line in gateway.log.read_text().splitlines() if line.startswith("{")]


@pytest.mark.parametrize("base", ["/v1", "/providers/up", "/providers/up/v1"])
def test_openais_package_makes_images(gateway: Gateway, upstream: FaultyServer, base: str) -> None:
    before = len(rows(gateway))
    reply(upstream, {"created": 1, "data": [{"b64_json": "aGk="}], "usage": {"input_tokens": 7, "output_tokens": 9}})
    answer = client(gateway, base=base).images.generate(model="dall-e-3", prompt="a ship")
    assert answer.data[0].b64_json == "aGk="
    sent = upstream.http[-1]
    assert sent.path.endswith("/images/generations")
    assert "/v1/v1" not in sent.path
    assert sent.headers["authorization"] == "[redacted]"  # the server knows the key and hides only that one
    assert json.loads(sent.body) == {"model": "dall-e-3", "prompt": "a ship"}
    gateway.wait_until(lambda: len(rows(gateway)) > before)
    row = rows(gateway)[-1]
    assert (row["key"], row["target"], row["input"], row["output"]) == ("alice", "up/dall-e-3", 7, 9)


def test_openais_package_speaks_and_listens(gateway: Gateway, upstream: FaultyServer) -> None:
    upstream.add(RawResponse(headers={"content-type": "audio/mpeg"}, body=AUDIO))
    with client(gateway).audio.speech.with_streaming_response.create(model="tts", voice="alloy", input="hi") as answer:
        assert answer.headers["content-type"] == "audio/mpeg"
        assert answer.read() == AUDIO
    reply(upstream, {"text": "hello"})
    heard = client(gateway).audio.transcriptions.create(model="whisper-1", file=("a.mp3", AUDIO))
    assert heard.text == "hello"
    assert AUDIO in upstream.http[-1].body


def test_the_query_goes_along_without_the_clients_key(gateway: Gateway, upstream: FaultyServer) -> None:
    reply(upstream, {"data": []})
    status, _ = gateway.get(f"/providers/up/fine_tuning/jobs?limit=2&key={ALICE}")
    assert status == 200
    assert upstream.http[-1].path.endswith("/fine_tuning/jobs?limit=2")
    assert ALICE not in str(upstream.http[-1].headers)


def test_an_error_of_the_provider_is_passed_on(gateway: Gateway, upstream: FaultyServer) -> None:
    import openai

    reply(upstream, {"error": {"message": "no such voice", "type": "x", "code": "y"}}, status=400)
    with pytest.raises(openai.BadRequestError, match="no such voice"):
        client(gateway).moderations.create(input="hi")


def test_a_refusal_of_the_gateways_own_key_names_the_target(gateway: Gateway, upstream: FaultyServer) -> None:
    import openai

    reply(upstream, {"error": {"message": "bad key sk-test-key"}}, status=401)
    with pytest.raises(openai.APIStatusError) as refused:
        client(gateway).moderations.create(input="hi")
    assert refused.value.status_code == 502
    assert "up" in str(refused.value)
    assert "sk-test-key" not in str(refused.value)


def break_off(server: socket.socket) -> None:
    connection, _ = server.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: audio/mpeg\r\ncontent-length: 9\r\n\r\nhalf")


def test_an_answer_that_breaks_off_is_not_taken_for_whole(tmp_path: Path) -> None:
    import openai

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=break_off, args=(server,))
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        with Gateway(tmp_path, f'{record("up", url)}[pass_through]\naudio = "up"\n') as gateway:
            with pytest.raises(openai.APIConnectionError):
                client(gateway).audio.speech.create(model="tts", voice="alloy", input="hi")
            gateway.wait_until(lambda: [row["outcome"] for row in rows(gateway)] == ["failed"])
        thread.join()


@pytest.mark.parametrize(
    ("key", "model", "reason"),
    [(BOB, "dall-e-2", "may not use 'up/dall-e-2'"), (CAROL, "dall-e-3", "allow_budgets"), ("sk-x", "m", "unknown")],
)
def test_a_key_has_its_limits(gateway: Gateway, upstream: FaultyServer, key: str, model: str, reason: str) -> None:
    import openai

    before = len(upstream.http)
    with pytest.raises((openai.PermissionDeniedError, openai.AuthenticationError), match=reason):
        client(gateway, key).images.generate(model=model, prompt="a ship")
    assert len(upstream.http) == before


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/providers/other/images", 404),
        ("/providers/up/../models", 400),
        ("/providers/up/%2e%2e/models", 400),
        ("/v1/fine_tuning/jobs", 404),
    ],
)
def test_other_paths_are_refused(gateway: Gateway, upstream: FaultyServer, path: str, status: int) -> None:
    before = len(upstream.http)
    assert gateway.get(f"{path}?key={ALICE}")[0] == status
    assert len(upstream.http) == before


def post(gateway: Gateway, path: str, body: bytes, key: str = ALICE, **headers: str) -> tuple[int, dict[str, str]]:
    connection = gateway.connect()
    try:
        connection.request("POST", path, body, {"authorization": f"Bearer {key}", **JSON, **headers})
        answer = connection.getresponse()
        answer.read()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}
    finally:
        connection.close()


@pytest.mark.parametrize(
    "path",
    [
        "/providers/up/models/forbidden:generateContent",
        "/providers/up/deployments/forbidden/images/generations",
        "/providers/up/model/forbidden/invoke",
        "/providers/up/messages/batches",
        "/providers/up/images%2F..%2Fmodels",
    ],
)
def test_a_model_in_the_body_gives_no_right_to_one_elsewhere(
    gateway: Gateway, upstream: FaultyServer, path: str
) -> None:
    before = len(upstream.http)
    body = b'{"model": "dall-e-3", "requests": [{"params": {"model": "forbidden"}}]}'
    assert post(gateway, path, body, BOB)[0] in (400, 403)
    assert len(upstream.http) == before


def test_two_models_in_one_form_are_refused(gateway: Gateway, upstream: FaultyServer) -> None:
    before = len(upstream.http)
    field = '--x\r\ncontent-disposition: form-data; name="model"\r\n\r\n{}\r\n'
    form = (field.format("forbidden") + field.format("dall-e-3") + "--x--\r\n").encode()
    kind = {"content-type": "multipart/form-data; boundary=x"}
    assert post(gateway, "/v1/images/edits", form, BOB, **kind)[0] == 400
    assert len(upstream.http) == before


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"a":[' + b"{}," * 5_000_000 + b'{}],"model":"x"}', "application/json"),
        (
            b'--x\r\ncontent-disposition: form-data; name="a"\r\n\r\n\r\n' * 500_000 + b"--x--\r\n",
            "multipart/form-data; boundary=x",
        ),
    ],
    ids=["json", "form"],
)
def test_a_large_body_is_refused_before_it_costs_time(
    gateway: Gateway, upstream: FaultyServer, body: bytes, kind: str
) -> None:
    before, worker = len(upstream.http), gateway.processes()[1]
    used = _cpu_seconds(worker)
    assert post(gateway, "/v1/images/generations", body, **{"content-type": kind})[0] == 400
    assert _cpu_seconds(worker) - used < 1 * slowness()
    assert len(upstream.http) == before


def _cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_page_of_a_provider_is_not_a_page_of_the_gateway(gateway: Gateway, upstream: FaultyServer) -> None:
    upstream.add(RawResponse(headers={"content-type": "text/html"}, body=b"<script>steal(sessionStorage)</script>"))
    status, headers = post(gateway, "/v1/images/generations", b"{}")
    assert status == 200
    assert headers["content-security-policy"] == "sandbox"
    assert headers["x-content-type-options"] == "nosniff"


def test_a_client_cannot_change_headers_of_the_operator(tmp_path: Path) -> None:
    with FaultyServer() as server:
        own = '[pass_through]\nproviders = ["up"]\n[providers.up.headers]\nOpenAI-Organization = "org-ours"\n'
        with Gateway(tmp_path, record("up", server.base_url()) + own) as running:
            reply(server, {})
            assert post(running, "/providers/up/moderations", b"{}", **{"openai-organization": "org-theirs"})[0] == 200
        assert server.http[-1].headers["openai-organization"] == "org-ours"


def test_it_counts_in_the_limits_of_the_deployment(tmp_path: Path) -> None:
    with FaultyServer() as upstream:
        config = record("up", upstream.base_url()) + "deployment_limits = { requests_per_minute = 1 }\n"
        with Gateway(tmp_path, f'{config}[pass_through]\nproviders = ["up"]\n') as gateway:
            reply(upstream, {"data": []})
            body = {"model": "m", "prompt": "a cat"}
            assert gateway.post("/providers/up/images/generations", body)[0] == 200
            status, headers, answer = gateway.post("/providers/up/images/generations", body)
    assert (status, b"its limit of 1 requests per minute is used up" in answer) == (429, True)
    assert 50 < int(headers["retry-after"]) <= 61


def test_it_is_off_by_default(tmp_path: Path) -> None:
    with Gateway(tmp_path, '[gateway]\nproviders = ["demo"]\n') as gateway:
        assert gateway.get("/v1/images/generations")[0] == 404
        assert gateway.get("/providers/demo/images")[0] == 404


def test_an_unknown_provider_is_an_error_of_the_config() -> None:
    with pytest.raises(SetupError, match=r"pass_through\.images: .*nobody"):
        decode_config('[pass_through]\nimages = "nobody"\n')
