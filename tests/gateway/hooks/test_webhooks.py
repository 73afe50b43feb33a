"""The hooks `moderation` and `webhook`, and alerts, with a real server on the loopback address."""

import asyncio
import hmac
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from dragoman.engine.health import CooldownStarted
from dragoman.errors import SetupError
from dragoman.gateway.app import App
from dragoman.gateway.auth.api_keys import new_key
from dragoman.gateway.config import decode_config
from dragoman.gateway.hooks.moderation import Verdict
from dragoman.gateway.observability.alerts import Alerts, AlertSettings
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.store import open_store
from dragoman.gateway.webhooks import MAX_WAITING, Webhook, Webhooks
from dragoman.io.driver import Driver
from dragoman.io.transport import make_transport
from dragoman.testing import Scripted
from dragoman.types import Request, user
from tests.support.gateway.dialects import hello, request_of, send_request


class Receiver:
    """A server that keeps what it gets, and answers with some statuses first."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.statuses: list[int] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
                self.send_response(outer.statuses.pop(0) if outer.statuses else 204)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hook?token=t"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.got]

    def stop(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    yield server
    server.stop()


def run(config: str, *requests: tuple[str, Request], authorization: str = "") -> list[int]:
    """The statuses of some requests; all messages have been sent afterwards."""

    async def ask() -> list[int]:
        app = App(Runtime(decode_config('[gateway]\nproviders = ["demo"]\n[chain]\nretries = 0\n' + config), {}))
        statuses: list[int] = []
        for model, request in requests:
            http = request_of("openai_chat", model, request)
            if authorization:
                http.headers["authorization"] = f"Bearer {authorization}"  # type: ignore[index]
            statuses.append((await send_request(app, http)).status)
        await app.close()
        return statuses

    return asyncio.run(ask())


# Webhooks -------------------------------------------------------------------------------------------------------------


def test_a_webhook_reports_answers_and_errors_without_content(receiver: Receiver) -> None:
    config = f'[hooks.report]\nuse = "webhook"\nurl = "{receiver.url}"\nsecret = "s3cret"'
    assert run(config, ("demo/any", hello()), ("demo/overloaded", hello())) == [200, 503]
    answer, error = receiver.messages
    assert (answer["event"], answer["model"], answer["target"], answer["finish"]) == (
        "answer",
        "demo/any",
        "demo/any",
        "stop",
    )
    assert answer["output_tokens"] > 0
    assert "answer" not in answer
    assert (error["event"], error["error"], error["status"]) == ("error", "Overloaded", 503)
    headers, body = receiver.got[0]
    expected = hmac.new(b"s3cret", body, "sha256").hexdigest()
    assert headers["x-dragoman-signature"] == f"sha256={expected}"


def test_a_webhook_has_the_content_if_it_is_wanted(receiver: Receiver) -> None:
    config = f'[hooks.report]\nuse = "webhook"\nurl = "{receiver.url}"\nevents = ["request", "answer"]\ncontent = true'
    run(config, ("demo/any", hello(stream=True)))
    request, answer = receiver.messages
    assert request["prompt"] == ["hello"]
    assert answer["answer"]


async def _no_wait(_seconds: float) -> None:
    await asyncio.sleep(0)


def deliver(receiver: Receiver, *statuses: int, count: int = 1) -> Webhooks:
    async def send() -> Webhooks:
        webhooks = Webhooks(sleep=_no_wait)
        webhooks.driver = Driver(make_transport())
        receiver.statuses = [*statuses]
        for number in range(count):
            webhooks.send(Webhook(url=receiver.url), {"n": number})
        await webhooks.flush()
        webhooks.driver.transport.close()
        return webhooks

    return asyncio.run(send())


def test_a_message_that_fails_is_sent_again(receiver: Receiver) -> None:
    assert deliver(receiver, 500, 429).dropped == 0
    assert len(receiver.got) == 3


@pytest.mark.parametrize(("statuses", "sent"), [([500, 500, 500], 3), ([404], 1)])
def test_a_message_that_cannot_be_sent_is_dropped(receiver: Receiver, statuses: list[int], sent: int) -> None:
    assert deliver(receiver, *statuses).dropped == 1
    assert len(receiver.got) == sent


def test_the_queue_is_bounded(receiver: Receiver) -> None:
    assert deliver(receiver, count=MAX_WAITING + 3).dropped == 3


def test_a_url_is_not_shown() -> None:
    assert "token" not in repr(Webhook(url="https://x/?token=1"))
    assert "token" not in repr(AlertSettings(url="https://x/?token=1"))


# Moderation -----------------------------------------------------------------------------------------------------------


def moderated(verdict: Verdict, *, check: str = '["request"]', model: str = "demo/any") -> tuple[int, str]:
    scripted = Scripted(f'{{"allowed": {str(verdict.allowed).lower()}, "reason": "{verdict.reason}"}}', repeat=True)

    async def ask() -> tuple[int, str]:
        config = (
            f'[gateway]\nproviders = ["demo"]\n[hooks.filter]\nuse = "moderation"\nmodel = "judge/m"\ncheck = {check}'
        )
        app = App(Runtime(decode_config(config + '\n[providers.judge]\nlike = "openai"\napi_key = "k"'), {}))
        app.runtime.registry.add_provider(name="judge", like="openai-chat", api_key="k", http_client=scripted)
        seen = await send_request(
            app, request_of("openai_chat", model, Request(messages=(user("How to pick a lock?"),)))
        )
        await app.close()
        return seen.status, seen.body.decode()

    return asyncio.run(ask())


def test_a_model_lets_a_request_pass() -> None:
    assert moderated(Verdict(allowed=True))[0] == 200


@pytest.mark.parametrize("check", ['["request"]', '["answer"]'])
def test_a_model_refuses_a_request_or_an_answer(check: str) -> None:
    status, body = moderated(Verdict(allowed=False, reason="a crime"), check=check)
    assert status == 403
    assert "was refused by a content filter: a crime" in body


# Alerts ---------------------------------------------------------------------------------------------------------------


def test_a_budget_that_is_used_alerts_once_for_each_part_and_once_if_it_refuses(receiver: Receiver) -> None:
    plain, digest = new_key()
    config = f'[alerts]\nurl = "{receiver.url}"\nbudgets = [0.5, 1.0]\n'
    config += f'[keys.alice]\nhash = "{digest}"\nbudgets = [{{ per = "day", tokens = 60 }}]\n'
    request = Request(messages=(user("hello"),), max_tokens=20)
    assert run(config, *[("demo/any", request)] * 5, authorization=plain)[-1] == 429
    half, refused = receiver.messages
    assert (half["alert"], half["holder"], half["period"], half["limit"]) == ("budget", "key alice", "day", 60)
    assert half["text"].startswith("key alice has used ")
    assert refused["text"].endswith("; requests are refused")


def test_a_target_that_fails_alerts_once(receiver: Receiver) -> None:
    run(f'[alerts]\nurl = "{receiver.url}"', *[("demo/overloaded", hello())] * 5)
    (message,) = receiver.messages
    assert (message["alert"], message["target"], message["error"]) == ("target", "demo/overloaded", "Overloaded")


def test_gateways_with_one_store_send_an_alert_once(receiver: Receiver) -> None:
    async def send() -> None:
        store, webhooks = open_store(), Webhooks()
        webhooks.driver = Driver(make_transport())
        for _ in range(2):
            alerts = Alerts(AlertSettings(url=receiver.url), store, webhooks)
            alerts.target_failed(CooldownStarted(target="a/m", seconds=5.0, why="Overloaded: busy"))
            await alerts.flush()
        quiet = Alerts(AlertSettings(url=receiver.url, failures=False), store, webhooks)
        quiet.target_failed(CooldownStarted(target="b/m", seconds=5.0, why="Overloaded: busy"))
        await quiet.flush()
        await webhooks.flush()
        webhooks.driver.transport.close()

    asyncio.run(send())
    assert [message["text"] for message in receiver.messages] == ["a/m fails (Overloaded); it is on cooldown for 5 s"]


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("", "alerts.url must be a URL with a scheme and a host"),
        ('url = "ftp://x"', "alerts.url must begin with https:// or http://"),
        ('url = "https://x"\nbudgets = [2]', "alerts.budgets[0] must be a number <= 1, got 2"),
    ],
)
def test_wrong_alerts_are_named(table: str, problem: str) -> None:
    with pytest.raises(SetupError) as caught:
        decode_config(f"[alerts]\n{table}")
    assert problem in str(caught.value)
