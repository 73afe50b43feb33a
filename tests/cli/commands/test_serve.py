import socket
from pathlib import Path

from tests.cli.commands.test_health import free_port
from tests.support.cli import dragoman


def test_a_wrong_config_stops_serve_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "dragoman.toml"
    path.write_text("[gatewya]\nport = 1\n", encoding="utf-8")
    done = dragoman("serve", "--config", path)
    assert done.code == 1
    assert done.err == f"dragoman: {path}: invalid config:\n- gatewya: unknown table; did you mean 'gateway'?\n"


def test_serve_beyond_this_machine_needs_keys() -> None:
    done = dragoman("serve", "--host", "0.0.0.0", "--port", free_port())  # noqa: S104 - it is refused
    assert done.code == 1
    assert "there are no keys" in done.err


def test_a_port_that_is_taken_is_an_error_before_anything_is_served() -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = dragoman("serve", "--port", str(port))
    assert (done.code, done.err) == (
        1,
        f"dragoman: cannot listen at http://127.0.0.1:{port}: Address already in use\n",
    )
