"""The servers that are measured: how to start each in front of the upstream, and how to send it a request."""

import json
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.client import MESSAGES
from benchmarks.long_bodies import client_body, conversation

WIRES = {"openai": "OpenAI chat in, OpenAI chat out", "anthropic": "OpenAI chat in, Anthropic out"}
"""The wires of the upstream; the models of every config are named after them."""


PACES = ("quick", "slow", "brief")
"""How the upstream writes a stream; the models are named after them, too."""
SHORT: Mapping[str, Any] = {"messages": MESSAGES, "max_tokens": 500, "temperature": 0.2}


def long_fields() -> dict[str, Any]:
    """A request of 400 kB with 60 tools and 200 messages."""
    body: dict[str, Any] = json.loads(client_body("openai_chat", conversation()).body)
    return {"messages": body["messages"], "tools": body["tools"]}


class Place(NamedTuple):
    """Where a server runs."""

    folder: Path
    """Its own folder, for its config."""
    peers: Path
    """The folder where the other gateways are installed."""
    port: int
    upstream: int

    def write(self, name: str, text: str) -> str:
        """Write a file to its folder, and return its path."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return str(path)


def _plain(_wire: str, _upstream: int) -> Mapping[str, str]:
    return {}


class Server(NamedTuple):
    """A server that is measured."""

    command: Callable[[Place], list[str] | None]
    """The command that starts it; None if it is not installed."""
    model: str = "{wire}-{pace}"
    path: str = "/v1/chat/completions"
    headers: Callable[[str, int], Mapping[str, str]] = _plain
    wires: tuple[str, ...] = tuple(WIRES)
    env: Mapping[str, str] = {}

    def request(
        self,
        port: int,
        upstream: int,
        wire: str,
        *,
        pace: str = "quick",
        stream: bool = False,
        fields: Mapping[str, Any] = SHORT,
    ) -> bytes:
        """The bytes of a request."""
        fields = {"model": self.model.format(wire=wire, pace=pace), **fields, "stream": stream}
        body = json.dumps(fields, separators=(",", ":")).encode()
        headers = {
            "host": f"127.0.0.1:{port}",
            "authorization": "Bearer sk-1234",
            "content-type": "application/json",
            "content-length": str(len(body)),
            **self.headers(wire, upstream),
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"POST {self.path} HTTP/1.1\r\n{head}\r\n".encode() + body


# ── ours, and the lower bounds ────────────────────────────────────────────────────


def _dragoman(place: Place) -> list[str]:
    url = f"http://127.0.0.1:{place.upstream}"
    text = f"""
[gateway]
port = {place.port}

[providers.openai-up]
like = "openai"
base_url = "{url}/v1"
api_key = "k"

[providers.anthropic-up]
like = "anthropic"
base_url = "{url}/v1"
api_key = "k"
"""
    return [sys.executable, "-m", "dragoman.gateway", place.write("dragoman.toml", text)]


def _passthrough(place: Place) -> list[str]:
    return [sys.executable, "-m", "benchmarks.gateway.passthrough", str(place.port), str(place.upstream)]


def _nginx(place: Place) -> list[str] | None:
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
    if nginx is None:
        return None
    text = f"""
worker_processes 1;
daemon off;
pid {place.folder}/nginx.pid;
error_log stderr crit;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    upstream up {{ server 127.0.0.1:{place.upstream}; keepalive 1024; keepalive_requests 1000000000; }}
    server {{
        listen 127.0.0.1:{place.port} backlog=4096;
        location / {{
            proxy_pass http://up;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
        }}
    }}
}}
"""
    return [nginx, "-c", place.write("nginx.conf", text), "-p", str(place.folder), "-e", "stderr"]


# ── peers ───────────────────────────────────────────────────────────────────


def _installed(program: Path) -> Path | None:
    return program if program.exists() else None


def _litellm(place: Place) -> list[str] | None:
    program = _installed(place.peers / "litellm" / "bin" / "litellm")
    if program is None:
        return None
    url = f"http://127.0.0.1:{place.upstream}"
    entry = """
  - model_name: {wire}-{pace}
    litellm_params: {{model: {wire}/{pace}, api_base: '{url}', api_key: k}}"""
    models = "".join(
        entry.format(wire=wire, pace=pace, url=f"{url}/v1" if wire == "openai" else url)
        for wire in WIRES
        for pace in PACES
    )
    config = place.write("litellm.yaml", f"model_list:\n{models}")
    return [str(program), "--config", config, "--host", "127.0.0.1", "--port", str(place.port), "--num_workers", "1"]


def _portkey(place: Place) -> list[str] | None:
    node = shutil.which("node")
    script = _installed(place.peers / "portkey/node_modules/@portkey-ai/gateway/build/start-server.js")
    return None if node is None or script is None else [node, str(script), f"--port={place.port}", "--headless"]


def _portkey_headers(wire: str, upstream: int) -> dict[str, str]:
    return {"x-portkey-provider": wire, "x-portkey-custom-host": f"http://127.0.0.1:{upstream}/v1"}


# It chooses its port itself.
_TENSORZERO_SCRIPT = """
import sys, threading
from tensorzero.tensorzero import _start_http_gateway
gateway = _start_http_gateway(
    config_file=sys.argv[1], clickhouse_url=None, postgres_url=None, valkey_url=None, async_setup=False
)
with open(sys.argv[2], "w") as file:
    file.write(gateway.base_url.split("/")[2].rpartition(":")[2])
threading.Event().wait()
"""


def _tensorzero(place: Place) -> list[str] | None:
    python = _installed(place.peers / "tensorzero" / "bin" / "python")
    if python is None:
        return None
    url = f"http://127.0.0.1:{place.upstream}/v1"
    entry = """
[models.{wire}-{pace}]
routing = ["up"]
[models.{wire}-{pace}.providers.up]
type = "{wire}"
model_name = "{pace}"
api_base = "{url}"
"""
    models = "".join(
        entry.format(wire=wire, pace=pace, url=url if wire == "openai" else f"{url}/messages")
        for wire in WIRES
        for pace in PACES
    )
    config = place.write("tensorzero.toml", f"[gateway]\nobservability.enabled = false\n{models}")
    return [str(python), place.write("start.py", _TENSORZERO_SCRIPT), config, str(place.folder / PORT)]


PORT = "port"
"""The file to which a server that chooses its own port writes it."""

# Our PYTHONPATH must not affect their interpreters.
_TENSORZERO_ENV = {"PYTHONPATH": "", "OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
_LITELLM_ENV = {
    "PYTHONPATH": "",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOG": "ERROR",
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
}

SERVERS: dict[str, Server] = {
    "nginx": Server(_nginx, wires=("openai",)),
    "passthrough": Server(_passthrough, wires=("openai",)),
    "dragoman": Server(_dragoman, model="{wire}-up/{pace}"),
    "TensorZero": Server(
        _tensorzero,
        model="tensorzero::model_name::{wire}-{pace}",
        path="/openai/v1/chat/completions",
        env=_TENSORZERO_ENV,
    ),
    "Portkey": Server(_portkey, model="{pace}", headers=_portkey_headers),
    "LiteLLM": Server(_litellm, env=_LITELLM_ENV),
}
"""By the name in the tables."""
