import json
import tomllib

from dragoman.gateway.auth.api_keys import Key, Keys
from tests.support.cli import dragoman


def test_a_new_key_is_shown_once_and_its_hash_matches_it() -> None:
    done = dragoman("keys", "new", "alice")
    table = tomllib.loads(done.err[done.err.index("[keys") :])["keys"]["alice"]
    assert Keys([Key(id="alice", hash=table["hash"])]).check(done.out.strip()) is not None
    assert done.out.strip() not in done.err


def test_a_new_key_as_json() -> None:
    created = json.loads(dragoman("keys", "new", "alice", "--json").out)
    assert Keys([Key(id="alice", hash=created["hash"])]).check(created["key"]) is not None


def test_a_name_that_the_gateway_refuses_is_a_usage_error() -> None:
    done = dragoman("keys", "new", "a b")
    assert (done.code, done.out) == (2, "")
    assert "argument NAME: the name of a key must be 1 to 64 letters, digits or . @ _ -, got 'a b'" in done.err
