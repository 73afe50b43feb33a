import pytest

from dragoman.errors import SetupError, redact
from dragoman.gateway.auth.api_keys import Key, Keys, hash_key, new_key


def test_a_key_is_found_by_its_plain_text() -> None:
    pairs = [new_key() for _ in range(50)]
    keys = Keys(Key(id=f"k{n}", hash=hash) for n, (_, hash) in enumerate(pairs))
    found = [keys.check(plain) for plain, _ in pairs]
    assert [key.id if key else None for key in found] == [f"k{n}" for n in range(50)]


@pytest.mark.parametrize("wrong", ["", "sk-dm-", "x" * 5000, "schlüssel\udcff", "b2:00:00:00"])
def test_another_key_is_not_found(wrong: str) -> None:
    plain, hash = new_key()
    keys = Keys([Key(id="team", hash=hash)])
    assert keys.check(wrong) is None
    assert keys.check(plain[:-1]) is None
    assert keys.check(hash) is None


def test_the_same_key_is_hashed_differently_each_time() -> None:
    plain, _ = new_key()
    assert hash_key(plain) != hash_key(plain)


def test_a_key_of_the_same_tag_is_still_compared() -> None:
    plain, hash = new_key()
    _, tag, _, _ = hash.split(":")
    _, _, salt, digest = new_key()[1].split(":")
    keys = Keys([Key(id="other", hash=f"b2:{tag}:{salt}:{digest}"), Key(id="team", hash=hash)])
    found = keys.check(plain)
    assert found is not None
    assert found.id == "team"


def test_no_key_is_in_a_hash_or_a_repr() -> None:
    plain, hash = new_key()
    assert plain not in hash
    assert hash not in repr(Key(id="team", hash=hash))


def test_our_keys_are_blotted_out_of_errors() -> None:
    plain, _ = new_key()
    assert plain not in redact(f"no such key: {plain}")


@pytest.mark.parametrize(
    ("globs", "model", "may"),
    [
        (("*",), "anything", True),
        (("groq/*", "simple"), "groq/llama", True),
        (("groq/*", "simple"), "simple", True),
        (("groq/*",), "openai/gpt", False),
        ((), "groq/llama", False),
    ],
)
def test_models_are_allowed_by_globs(globs: tuple[str, ...], model: str, may: bool) -> None:  # noqa: FBT001
    assert Key(id="team", hash="b2:0:0:0", models=globs).may_use(model) is may


def test_what_is_no_hash_is_refused() -> None:
    with pytest.raises(ValueError, match="keys new"):
        Key(id="team", hash="sk-plain")


def test_a_short_key_is_refused() -> None:
    with pytest.raises(SetupError, match="at least 24 random characters"):
        hash_key("secret")
