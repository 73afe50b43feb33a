"""A path of 64 KB that no route has: it is refused at once, and nobody keeps it."""

import http.client
from pathlib import Path

import pytest

from dragoman.gateway.auth.api_keys import hash_key
from tests.support.clock import slowness
from tests.support.gateway.live import Gateway
from tests.support.gateway.stalls import cpu_seconds

KEY = "dgm-ann-000000000000000000000000"
MARK = "zzzz"
CONFIG = f"""
[gateway]
providers = ["demo"]
store = "sqlite:///{{folder}}/store.db"
[keys.ann]
role = "admin"
hash = "{hash_key(KEY)}"
"""


@pytest.mark.parametrize("key", [KEY, ""])
def test_a_long_path_that_nobody_knows_is_refused_at_once_and_not_kept(tmp_path: Path, key: str) -> None:
    config = CONFIG.replace("{folder}", str(tmp_path))
    headers = {"authorization": f"Bearer {key}"} if key else {}
    with Gateway(tmp_path, config) as gateway:
        before = cpu_seconds(gateway)
        statuses: set[int] = set()
        paths = [f"{start}{MARK * (size // 4)}" for start in ("/", "/v1/", "/v1/files/") for size in (60_000, 65_536)]
        paths += [f"/{'a/' * 30_000}{MARK}", f"/{'%2e%2e/' * 8000}{MARK}", f"/v1/models?{MARK}={'&' * 60_000}"]
        for path in paths:
            for method in ("GET", "POST", "DELETE", "OPTIONS"):
                statuses.add(ask(gateway, method, path, headers))
        assert cpu_seconds(gateway) - before < 2 * slowness()
        assert statuses <= {200, 204, 400, 401, 404, 405, 414, 431}
        status, metrics = gateway.get("/metrics", authorization=f"Bearer {KEY}")
        assert status == 200
        assert MARK.encode() not in metrics
        assert len(metrics) < 50_000
        usage = gateway.get("/admin/api/usage/requests", authorization=f"Bearer {KEY}")[1]
        assert MARK.encode() not in usage
    assert all(MARK.encode() not in path.read_bytes() for path in tmp_path.glob("store.db*"))
    assert max(map(len, gateway.log.read_bytes().split(b"\n"))) < 3000


def ask(gateway: Gateway, method: str, path: str, headers: dict[str, str]) -> int:
    connection = gateway.connect()
    try:
        connection.putrequest(method, path, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        return connection.getresponse().status
    except (http.client.RemoteDisconnected, ConnectionError):
        return 431  # closed while the client was sending
    finally:
        connection.close()
