import pytest

from dragoman.targets.target import Capabilities, Quirks, Target


def target(**more: str | None) -> Target:
    return Target(provider="groq", model="a/b", wire="openai_chat", base_url="https://x/v1", **more)  # type: ignore[arg-type]  # of its fields that are words


def test_a_target_is_named_by_provider_and_model() -> None:
    assert target().name == "groq/a/b"


@pytest.mark.parametrize(
    ("auth", "headers"), [("bearer", {"authorization": "Bearer hush"}), ("x-api-key", {"x-api-key": "hush"})]
)
def test_a_key_stands_where_the_target_wants_it(auth: str, headers: dict[str, str]) -> None:
    assert target(api_key="hush", auth=auth).auth_headers() == headers


@pytest.mark.parametrize("key", [None, ""])
def test_without_a_key_nobody_is_named(key: str | None) -> None:
    assert target(api_key=key).auth_headers() == {}


def test_a_repr_shows_no_key() -> None:
    assert repr(target(api_key="hush")) == "Target(groq/a/b)"


def test_rich_shows_no_key() -> None:
    assert target(api_key="hush").__rich_repr__() == [("name", "groq/a/b")]


def test_what_is_not_known_is_not_limited() -> None:
    capabilities = Capabilities()
    assert (capabilities.max_images, capabilities.context_window, capabilities.max_output) == (None, None, None)


def test_a_target_without_quirks_speaks_its_wire_plainly() -> None:
    assert target().quirks == Quirks()


@pytest.mark.parametrize(
    ("base_url", "key", "headers"),
    [
        ("http://me:p%40ss@box:11434", None, {"authorization": "Basic bWU6cEBzcw=="}),
        ("http://me@box:11434", None, {"authorization": "Basic bWU6"}),
        ("http://me%3Asecret@box", None, {"authorization": "Basic bWU6c2VjcmV0"}),
        ("http://me:secret@box/v1", "k", {"authorization": "Basic bWU6c2VjcmV0"}),
        ("http://box/v1/@team", "k", {"authorization": "Bearer k"}),
    ],
)
def test_the_user_of_a_base_url_is_sent(base_url: str, key: str | None, headers: dict[str, str]) -> None:
    assert Target(provider="p", model="m", wire="ollama", base_url=base_url, api_key=key).auth_headers() == headers
