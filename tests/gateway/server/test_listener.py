"""The sockets that the parent makes for its workers."""

import socket

import pytest

from dragoman.gateway.server.listener import bind, bind_beside

pytestmark = pytest.mark.skipif(not hasattr(socket, "SO_REUSEPORT"), reason="workers share no port")


def test_workers_listen_at_the_same_address() -> None:
    with bind(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)) as first:
        second = bind_beside([first])
        assert second is not None
        with second:
            assert second.getsockname() == first.getsockname()
            first.listen()
            second.listen()


def test_a_listener_that_was_just_closed_is_passed_over() -> None:
    """A signal may close it at any time."""
    closed = socket.socket()
    closed.close()
    assert bind_beside([]) is None
    assert bind_beside([closed]) is None
    with bind(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)) as other:
        found = bind_beside([closed, other])
        assert found is not None
        with found:
            assert found.getsockname() == other.getsockname()


def test_an_address_that_cannot_be_shared_is_no_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as alone:
        assert bind_beside([alone]) is None
