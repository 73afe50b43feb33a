"""Tokens of Google and Microsoft, by their own libraries, from servers on loopback."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman import Registry
from dragoman.engine.effects import Sign
from dragoman.errors import AuthFailed
from dragoman.http import HttpRequest
from dragoman.io.cloud_credentials import AZURE_SCOPE, EntraCredential, GoogleCredential, cloud_credential
from dragoman.targets.target import Target

# google-auth would rather have one function per kind of file; the user chose the file, whatever its kind.
pytestmark = pytest.mark.filterwarnings("ignore:The load_credentials_from_file method is deprecated:DeprecationWarning")


class TokenServer(ThreadingHTTPServer):
    """Gives a token for every request; `paths` has what was asked for."""

    def __init__(self, body: dict[str, Any]) -> None:
        self.paths: list[str] = []
        self.body = json.dumps(body).encode()
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: TokenServer  # pyright: ignore[reportIncompatibleVariableOverride] - no other server has this handler

    def do_GET(self) -> None:
        self.server.paths.append(self.path)
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("metadata-flavor", "Google")
        self.send_header("content-length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    do_POST = do_GET  # noqa: N815 - the name that http.server calls

    def log_message(self, format: str, *args: object) -> None:
        pass


def serve(body: dict[str, Any]) -> Iterator[TokenServer]:
    with TokenServer(body) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def google() -> Iterator[TokenServer]:
    yield from serve({"access_token": "google-token", "expires_in": 3600, "token_type": "Bearer"})


@pytest.fixture
def entra() -> Iterator[TokenServer]:
    yield from serve(
        {"access_token": "entra-token", "expires_on": "4102444800", "resource": "x", "token_type": "Bearer"}
    )


def signing(credential: Any) -> Sign:
    target = Target(provider="p", model="m", wire="google", base_url="https://x", credential=credential)
    return Sign(HttpRequest(method="POST", origin="https://x", path="/x", body=b"{}"), target)


@pytest.fixture
def service_account(google: TokenServer, tmp_path: Path) -> Path:
    """The file of a service account, whose tokens come from our server."""
    rsa: Any = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")
    forms: Any = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    key = private.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption()).decode()
    file = tmp_path / "account.json"
    fields = {"type": "service_account", "client_email": "a@p.iam", "private_key": key, "private_key_id": "1"}
    file.write_text(json.dumps({**fields, "token_uri": f"{google.url}/token", "project_id": "p"}))
    return file


def test_a_service_account(service_account: Path, google: TokenServer) -> None:
    credential = GoogleCredential({"GOOGLE_APPLICATION_CREDENTIALS": str(service_account)})
    for _ in range(3):
        signed = credential.sign(signing(credential))
        assert signed.headers["authorization"] == "Bearer google-token"
        assert signed.secret == "google-token"
    assert google.paths == ["/token"], "the token is fetched once"
    assert credential.source == "Google (service_account)"
    assert "google-token" not in repr(credential)


def test_the_project_that_pays(service_account: Path) -> None:
    env = {"GOOGLE_APPLICATION_CREDENTIALS": str(service_account), "GOOGLE_CLOUD_QUOTA_PROJECT": "payer"}
    credential = GoogleCredential(env)
    request = signing(credential)
    signed = credential.sign(request)
    assert signed.headers["x-goog-user-project"] == "payer"
    google_auth: Any = pytest.importorskip("google.auth")
    library, _ = google_auth.load_credentials_from_file(str(service_account), quota_project_id="payer")
    expected: dict[str, str] = {}
    library.apply(expected, token="google-token")
    expected.pop("x-allowed-locations", None)
    assert {name: signed.headers[name] for name in expected} == expected
    own = replace(request, request=replace(request.request, headers={"X-Goog-User-Project": "mine"}))
    assert credential.sign(own).headers["X-Goog-User-Project"] == "mine"
    assert "x-goog-user-project" not in credential.sign(own).headers


def test_a_registry_uses_it_for_vertex(service_account: Path) -> None:
    env = {"GOOGLE_APPLICATION_CREDENTIALS": str(service_account), "GOOGLE_CLOUD_PROJECT": "p"}
    registry = Registry(env=env)
    credential = registry.target("vertex/gemini-x").credential
    assert isinstance(credential, GoogleCredential)
    assert credential is registry.target("vertex-anthropic/claude-x").credential
    assert credential.sign(signing(credential)).headers["authorization"] == "Bearer google-token"


def test_a_key_comes_before_the_default_credentials() -> None:
    target = Registry(env={"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_ACCESS_TOKEN": "t"}).target("vertex/gemini-x")
    assert target.credential is None
    assert target.auth_headers() == {"authorization": "Bearer t"}


@pytest.mark.parametrize("credential", [GoogleCredential({}), EntraCredential({})])
def test_without_a_source_the_error_says_what_to_set(credential: Any) -> None:
    with pytest.raises(AuthFailed, match="set "):
        credential.sign(signing(credential))


def test_a_file_that_is_not_one(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text("{}")
    credential = GoogleCredential({"GOOGLE_APPLICATION_CREDENTIALS": str(file)})
    with pytest.raises(AuthFailed, match=r"google-auth found no token .*; run gcloud auth"):
        credential.sign(signing(credential))


IN_ITS_OWN_PROCESS = """
import sys
from dragoman.engine.effects import Sign
from dragoman.http import HttpRequest
from dragoman.io.cloud_credentials import cloud_credential
from dragoman.targets.target import Target
import os
credential = cloud_credential(sys.argv[1], os.environ)
target = Target(provider="p", model="m", wire="google", base_url="https://x", credential=credential)
http = credential.sign(Sign(HttpRequest(method="POST", origin="https://x", path="/x"), target))
print(http.headers["authorization"], credential.source, sep="|")
"""


def in_its_own_process(identity: str, **env: str) -> list[str]:
    """These libraries read the environment of the process."""
    home = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "PYTHONPATH": os.pathsep.join(sys.path), **env}
    command = [sys.executable, "-c", IN_ITS_OWN_PROCESS, identity]
    done = subprocess.run(command, env=home, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip().split("|")


def test_the_default_credentials_of_the_process(service_account: Path) -> None:
    found = in_its_own_process("google", GOOGLE_APPLICATION_CREDENTIALS=str(service_account))
    assert found == ["Bearer google-token", "Google (service_account)"]


def test_a_managed_identity_of_azure(entra: TokenServer) -> None:
    pytest.importorskip("azure.identity")
    found = in_its_own_process("azure", IDENTITY_ENDPOINT=f"{entra.url}/msi", IDENTITY_HEADER="secret")
    assert found == ["Bearer entra-token", "Microsoft Entra"]
    assert AZURE_SCOPE.removesuffix("/.default").rpartition("/")[2] in entra.paths[0]


@pytest.mark.parametrize(
    ("identity", "login", "audience"),
    [
        ("azure-foundry", "", "ai.azure.com"),
        ("azure", "https://login.microsoftonline.us/", "cognitiveservices.azure.us"),
        ("azure", "login.chinacloudapi.cn", "cognitiveservices.azure.cn"),
    ],
)
def test_the_audience_of_a_token_of_azure(entra: TokenServer, identity: str, login: str, audience: str) -> None:
    pytest.importorskip("azure.identity")
    env = {"IDENTITY_ENDPOINT": f"{entra.url}/msi", "IDENTITY_HEADER": "secret"}
    in_its_own_process(identity, **env, **({"AZURE_AUTHORITY_HOST": login} if login else {}))
    assert audience in entra.paths[0]


def test_the_library_looks_again_after_a_rejection(service_account: Path, google: TokenServer) -> None:
    credential = GoogleCredential({"GOOGLE_APPLICATION_CREDENTIALS": str(service_account)})
    first = signing(credential)
    assert credential.sign(first).secret == "google-token"
    google.body = json.dumps({"access_token": "token-2", "expires_in": 3600, "token_type": "Bearer"}).encode()
    assert credential.sign(first).secret == "google-token"
    assert credential.sign(Sign(first.request, first.target, "google-token")).secret == "token-2"


@pytest.mark.parametrize(
    ("credential", "module", "command"),
    [
        (GoogleCredential({}), "google.auth", r"pip install 'dragoman\[google\]'"),
        (EntraCredential(os.environ), "azure.identity", r"pip install 'dragoman\[azure\]'"),
    ],
)
def test_an_extra_that_is_missing_is_named(
    credential: Any, module: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(AuthFailed, match=command):
        credential.sign(signing(credential))


def test_each_cloud_has_its_credential() -> None:
    names = {type(cloud_credential(identity, {})).__name__ for identity in ("aws", "google", "azure")}
    assert names == {"AwsCredential", "GoogleCredential", "EntraCredential"}
