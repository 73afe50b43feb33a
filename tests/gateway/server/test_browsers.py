"""Web pages of other sites cannot use a gateway without keys, by DNS rebinding or by cross-site requests."""

import json
from pathlib import Path

import pytest

from dragoman.errors import SetupError
from dragoman.gateway.auth.api_keys import new_key
from dragoman.gateway.config import decode_config
from dragoman.http import HttpRequest
from tests.support.gateway.dialects import ClientResponse, app_of, send_blocking
from tests.support.gateway.live import Gateway, chat

CHAT = "/v1/chat/completions"
BODY = json.dumps(chat("demo/any")).encode()
PAGE = "https://app.example.com"
ROUTES = [
    ("POST", CHAT),
    ("POST", "/v1/messages"),
    ("POST", "/v1/responses"),
    ("POST", "/v1beta/models/demo/any:generateContent"),
    ("POST", "/api/chat"),
    ("POST", "/native/v1/chat/completions"),
    ("POST", "/v1/embeddings"),
    ("GET", "/v1/models"),
    ("GET", "/api/tags"),
    ("GET", "/api/version"),
    ("GET", "/metrics"),
    ("GET", "/health"),
    ("GET", "/health/live"),
    ("GET", "/"),
    ("GET", "/admin/api/snapshot"),
    ("POST", "/admin/api/explain"),
]


def call(config: str = "", method: str = "POST", path: str = CHAT, **headers: str) -> ClientResponse:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    body = BODY if method == "POST" else b""
    return send_blocking(app_of(config), HttpRequest(method=method, path=path, headers=names, body=body))


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example:8080"},
        {"host": "127.0.0.1.evil.example"},
        {"host": "localhost.evil.example"},
        {"host": "127.0.0.1:8080", "origin": "https://evil.example"},
        {"host": "127.0.0.1:8080", "origin": "null"},
        {"host": "127.0.0.1:8080", "origin": "http://127.0.0.1:9999"},
        {"host": "evil.example", "origin": "http://evil.example"},
        {"host": "[::1].evil.example"},
        {"host": "127.0.0.1:80:evil.example"},
        {"host": "evil.example%00.localhost"},
        {"host": "evil.example@localhost"},
    ],
)
def test_a_foreign_page_reaches_no_route_without_keys(method: str, path: str, headers: dict[str, str]) -> None:
    seen = call(method=method, path=path, content_type="text/plain", **headers)
    assert seen.status == 403
    assert "access-control-allow-origin" not in seen.headers


def test_the_attack_against_a_running_gateway(tmp_path: Path) -> None:
    with Gateway(tmp_path) as gateway:
        attack = {"content-type": "text/plain"}
        assert gateway.post(CHAT, BODY, origin="https://evil.example", **attack)[0] == 403
        assert gateway.post(CHAT, BODY, host="evil.example", **attack)[0] == 403
        assert gateway.get("/metrics", host="evil.example")[0] == 403
        assert gateway.post(CHAT, BODY)[0] == 200


@pytest.mark.parametrize("host", ["localhost:8080", "127.0.0.1", "[::1]:8080", "10.0.0.7:80", "gateway:8080"])
def test_names_that_no_stranger_can_own_are_hosts(host: str) -> None:
    assert call(host=host).status == 200
    assert call(host=host, origin=f"http://{host}").status == 200


def test_a_host_of_the_config_is_a_name_of_the_gateway() -> None:
    assert call('[gateway]\nhost_names = ["llm.example.com"]\n', host="llm.example.com:8080").status == 200


def test_clients_with_keys_may_use_any_name_and_come_from_any_page() -> None:
    plain, hash = new_key()
    headers = {"host": "llm.example.com", "origin": "https://other.example", "authorization": f"Bearer {plain}"}
    seen = call(f'[keys.a]\nhash = "{hash}"\n', **headers)
    assert seen.status == 200
    assert "access-control-allow-origin" not in seen.headers


# CORS -----------------------------------------------------------------------------------------------------------------

ALLOWED = f'[gateway]\norigins = ["{PAGE}"]\n'
PREFLIGHT = {"access_control_request_method": "POST", "access_control_request_headers": "x-api-key, content-type"}


@pytest.mark.parametrize("key", [True, False])
def test_a_preflight_of_an_allowed_page_is_answered_without_a_key(key: bool) -> None:  # noqa: FBT001
    config = ALLOWED + (f'[keys.a]\nhash = "{new_key()[1]}"\n' if key else "")
    seen = call(config, "OPTIONS", origin=PAGE, **PREFLIGHT)
    assert (seen.status, seen.body) == (204, b"")
    assert seen.headers == {
        "access-control-allow-origin": PAGE,
        "access-control-allow-methods": "GET, POST, PUT, PATCH, DELETE, OPTIONS",
        "access-control-allow-headers": "x-api-key, content-type",
        "access-control-max-age": "600",
        "access-control-expose-headers": "*",
        "vary": "origin",
    }


@pytest.mark.parametrize("config", ["", ALLOWED])
def test_a_preflight_of_another_page_is_a_403(config: str) -> None:
    seen = call(config, "OPTIONS", origin="https://evil.example", **PREFLIGHT)
    assert seen.status == 403
    assert not [name for name in seen.headers if name.startswith("access-control")]


def test_options_without_a_preflight_is_a_wrong_method() -> None:
    assert call(ALLOWED, "OPTIONS").status == 405


def test_answers_and_errors_can_be_read_by_an_allowed_page() -> None:
    for path, status in ((CHAT, 200), ("/v1/nothing", 404)):
        seen = call(ALLOWED, path=path, host="localhost", origin=PAGE)
        assert (seen.status, seen.headers["access-control-allow-origin"]) == (status, PAGE)


def test_every_page_may_be_allowed() -> None:
    seen = call('[gateway]\norigins = ["*"]\n', origin="https://any.example")
    assert (seen.status, seen.headers["access-control-allow-origin"]) == (200, "*")


@pytest.mark.parametrize("origin", ["https://app.example.com/", "app.example.com", "https://*.example.com", ""])
def test_an_origin_that_no_browser_sends_is_refused_at_the_start(origin: str) -> None:
    with pytest.raises(SetupError, match=r"gateway\.origins must be"):
        decode_config(f'[gateway]\norigins = ["{origin}"]\n')
