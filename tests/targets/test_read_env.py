"""The environment that notes what is read from it."""

import pytest

from dragoman.targets.read_env import ReadEnv


def test_what_is_read_is_noted_also_if_it_is_not_set() -> None:
    env = ReadEnv({"A": "1", "B": "2"})
    assert (env["A"], env.get("C")) == ("1", None)
    with pytest.raises(KeyError):
        env["C"]
    assert env.values_read == {"A": "1", "C": None}
    assert (list(env), len(env), bool(ReadEnv({}))) == (["A", "B"], 2, True)
