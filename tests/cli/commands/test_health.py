import json
import re
import signal
import socket
import ssl
import subprocess
import threading
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import trustme

from dragoman.registry import Registry
from dragoman.testing import FaultyServer, RawResponse
from tests.support.cli import COMMAND, dragoman, environment


@contextmanager
def serving(*words: str) -> Generator[str, None, None]:
    """Run a gateway, and return its address."""
    with subprocess.Popen(
        [*COMMAND, "serve", *words], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment(), text=True
    ) as process:
        assert process.stderr is not None
        try:
            line = process.stderr.readline()
            found = re.search(r"http://\S+", line)
            assert found, line
            wait_until_ready(found[0])
            yield found[0]
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
    assert process.returncode == 0


def wait_until_ready(url: str) -> None:
    """The workers listen a moment after the address is printed."""
    pause = threading.Event()
    for _ in range(1000):
        try:
            with urllib.request.urlopen(f"{url}/health/ready") as reply:  # noqa: S310 - our own address
                if reply.status == 200:
                    return
        except OSError:
            pause.wait(0.02)
    raise AssertionError(f"{url} is not ready")


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return str(listener.getsockname()[1])


def test_the_health_of_a_running_gateway_is_shown() -> None:
    with serving("--port", free_port()) as url:
        registry = Registry(env={"LLM_GATEWAY": url.replace("http://", "vllm+http://") + "/v1"})
        assert (
            registry.model("gateway/demo/any").generate("Is it so?").text == "You said “Is it so?”, which is 3 words."
        )
        done = dragoman("health", "--gateway", url)
        assert done.code == 0
        assert done.out.startswith("demo/any\thealthy\t")
        assert json.loads(dragoman("health", "--json", DRAGOMAN_GATEWAY=url).out)["status"] == "ok"
        shown = dragoman("explain", "demo/any", "--gateway", url).out
    assert "   health       healthy" in shown


def test_a_gateway_that_does_not_run_is_an_error_in_one_line() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    done = dragoman("health", "--gateway", url)
    assert done.code == 1
    assert done.err.startswith(f"dragoman: ConnectFailed: no gateway runs at {url}; start one with dragoman serve, or ")
    assert done.err.count("\n") == 1


def test_a_certificate_that_is_not_known_is_named(tmp_path: Path) -> None:
    path = tmp_path / "server.pem"
    trustme.CA().issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(path))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet() -> None:
            with suppress(OSError), context.wrap_socket(listener.accept()[0], server_side=True):
                pass

        server = threading.Thread(target=greet)
        server.start()
        done = dragoman("health", "--gateway", f"https://127.0.0.1:{listener.getsockname()[1]}")
        server.join()
    assert done.code == 1
    assert "certificate verify failed" in done.err
    assert "set SSL_CERT_FILE to a PEM file" in done.err


@pytest.mark.parametrize(
    ("words", "kind"), [(("health",), "of this gateway"), (("admin", "keys", "list"), "with the role admin")]
)
def test_a_missing_key_is_named_by_what_the_command_needs(words: tuple[str, ...], kind: str) -> None:
    with FaultyServer(RawResponse(body=b"{}", status=401)) as server:
        done = dragoman(*words, "--gateway", server.base_url())
    assert done.code == 1
    assert done.err.endswith(f"needs a key; set DRAGOMAN_KEY to a key {kind}\n")
