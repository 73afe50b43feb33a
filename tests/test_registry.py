import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dragoman.engine.attempt import build_request
from dragoman.errors import Overloaded, SetupError
from dragoman.registry import Registry
from dragoman.targets.health_policy import HealthPolicy
from dragoman.targets.provider import Provider
from dragoman.targets.providers import PROVIDERS
from dragoman.targets.spec_hints import provider_hint, spec_hint
from dragoman.testing import FaultyServer
from dragoman.types import Request, user


def test_a_registry_has_a_health_policy_of_its_own() -> None:
    strict = Registry(env={}, health_policy=HealthPolicy(threshold=1, base=60))
    usual = Registry(env={})
    for registry in (strict, usual):
        with FaultyServer(Overloaded("busy")) as server:
            registry.add_provider(name="box", like="vllm", base_url=server.base_url())
            with pytest.raises(Overloaded):
                registry.model("box/m", retries=0).generate("hi")
    assert [registry.health.get("box/m").is_healthy for registry in (strict, usual)] == [False, True]
    until = strict.health.get("box/m").until
    assert until is not None
    assert 50 < until - time.monotonic() <= 60


def names(registry: Registry, spec: str) -> list[str]:
    return [target.name for target in registry.targets(spec)]


def empty(**env: str) -> Registry:
    return Registry(env=env)


# Specs ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "provider", "model"),
    [
        ("openrouter/meta/llama-3:free", "openrouter", "meta/llama-3:free"),
        ("ollama-cloud/minimax-m3:cloud", "ollama-cloud", "minimax-m3:cloud"),
        ("fireworks/accounts/fireworks/models/x", "fireworks", "accounts/fireworks/models/x"),
        ("openai/no-such-model@2099", "openai", "no-such-model@2099"),
        ("  groq/a b  ", "groq", "a b"),
    ],
)
def test_the_first_slash_splits_and_ids_are_passed_on_verbatim(spec: str, provider: str, model: str) -> None:
    (target,) = empty().targets(spec)
    assert (target.provider, target.model) == (provider, model)


def test_blanks_around_an_element_are_ignored() -> None:
    assert names(empty(), " groq/a ,\topenai/b\n") == ["groq/a", "openai/b"]


@pytest.mark.parametrize("spec", ["", " ", ",", "groq/a,", ",groq/a", "groq/a,,openai/b", "groq/a, ,openai/b"])
def test_an_empty_element_is_a_wrong_set_up(spec: str) -> None:
    with pytest.raises(SetupError, match="must not have empty elements"):
        empty().targets(spec)


@pytest.mark.parametrize("spec", ["groq/", "/llama", "/"])
def test_half_a_target_is_a_wrong_set_up(spec: str) -> None:
    with pytest.raises(SetupError, match=f"target must be provider/model, got '{spec}'; targets"):
        empty().targets(spec)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("openai:gpt-5", "openai/gpt-5"),
        ("openrouter:meta/llama-3:free", "openrouter/meta/llama-3:free"),
        ("ollama:llama3:8b", "ollama/llama3:8b"),
        ("ollama/llama3:8b", "ollama/llama3:8b"),
        ("box:qwen3", "box/qwen3"),
        ("gpt-5", "openai/gpt-5"),
        ("o3-mini", "openai/o3-mini"),
        ("claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"),
        ("gemini-2.5-pro", "google/gemini-2.5-pro"),
        ("grok-4", "xai/grok-4"),
    ],
)
def test_a_colon_or_the_model_alone_can_name_a_target(spec: str, expected: str) -> None:
    registry = Registry(env={"LLM_BOX": "ollama+http://box:11434"})
    assert names(registry, f"groq/a, {spec}") == ["groq/a", expected]


def test_an_alias_comes_before_a_colon_and_a_family() -> None:
    registry = empty()
    registry.alias("gpt-5", "groq/a")
    registry.alias("openai:gpt-5", "groq/b")
    assert names(registry, "gpt-5,openai:gpt-5") == ["groq/a", "groq/b"]


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ("foo", "for example openai/foo or ollama/foo"),
        ("qwen3", "for example ollama/qwen3 or vllm/qwen3 or openrouter/qwen3"),
        ("gpt-oss-20b", "for example ollama/gpt-oss-20b or groq/gpt-oss-20b or vllm/gpt-oss-20b"),
        ("llama3:8b", "for example ollama/llama3:8b"),
        ("my-model:2b", "for example ollama/my-model:2b"),
        ("anthropic.claude-v2:1", "for example bedrock/anthropic.claude-v2:1"),
        ("glm-4.6", "for example zai/glm-4.6 or openrouter/glm-4.6"),
        ("GPT-5", "write openai/gpt-5"),
        ("google-gla:gemini-2.5-pro", "write google/gemini-2.5-pro"),
        ("google_vertexai:gemini-2.5-pro", "write vertex/gemini-2.5-pro"),
        ("groq-fast:llama", "write groq/llama"),
        ("claude", "write the name of a model, such as anthropic/claude-…; dragoman models anthropic lists them"),
        ("Gemini", "write the name of a model, such as google/gemini-…; dragoman models google lists them"),
        ("openai", "add the model: openai/…"),
        ("openai:", "add the model: openai/…"),
        ("Is it so?", "a name has no blanks: the model comes first, then the prompt"),
    ],
)
def test_a_name_that_is_no_target_is_refused_with_what_to_write(spec: str, hint: str) -> None:
    with pytest.raises(SetupError) as refused:
        empty().targets(spec)
    assert str(refused.value) == f"model must be provider/model or an alias, got {spec!r}; {hint}"


def test_providers_with_a_key_are_the_first_choice_and_a_name_without_letters_has_none() -> None:
    registry = Registry(env={"XAI_API_KEY": "k", "GROQ_API_KEY": "k"})
    with pytest.raises(SetupError, match=r"for example groq/foo or xai/foo or openai/foo$"):
        registry.targets("foo")
    with pytest.raises(SetupError, match=r"got ':'$"):
        registry.targets(":")


def test_a_prompt_in_the_place_of_the_model_is_not_repeated_at_length() -> None:
    for text in ("a" * 10_000, "Is it so? " * 1000):
        with pytest.raises(SetupError) as refused:
            empty().targets(text)
        assert len(str(refused.value)) < 600


def test_the_hints_name_only_providers_that_exist() -> None:
    assert spec_hint("qwen3", ["vllm"], []) == "; for example vllm/qwen3"
    assert spec_hint("qwen3", ["groq"], []) == ""
    assert provider_hint("meta-llama", ["groq"]) == "; dragoman providers lists the known ones"


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ("vertex_ai/gemini-2.5-pro", "; did you mean 'vertex'?"),
        ("hosted_vllm/x", "; did you mean 'vllm'?"),
        ("opneai/gpt-5", "; did you mean 'openai'?"),
        ("meta-llama/Llama-3", "; if 'meta-llama' is part of the model's name, write its host first, such as "),
        ("nosuch/model", " is not set; dragoman providers lists the known ones"),
        ("http://localhost:8000/v1", "; a model is provider/model: set LLM_BOX=vllm+http://host:8000/v1 or similar"),
    ],
)
def test_an_unknown_provider_is_refused_with_its_name_here(spec: str, hint: str) -> None:
    with pytest.raises(SetupError, match=re.escape(hint)):
        empty().targets(spec)


def test_duplicates_are_dropped_and_the_first_kept() -> None:
    assert names(empty(), "groq/a,openai/b,groq/a,openai/c,openai/b") == ["groq/a", "openai/b", "openai/c"]


def test_the_capabilities_of_a_chain_are_those_of_its_head() -> None:
    registry = empty()
    registry.set_capabilities("groq/a", max_images=7)
    assert registry.capabilities("groq/a,openai/b").max_images == 7


# Aliases --------------------------------------------------------------------------------------------------------------


def test_aliases_expand_in_place_anywhere_and_inside_each_other() -> None:
    registry = empty()
    registry.alias("tier", "groq/a, inner")
    registry.alias(" inner ", "openai/b,xai/c")
    assert names(registry, "mistral/x,tier,zai/y") == ["mistral/x", "groq/a", "openai/b", "xai/c", "zai/y"]
    assert names(registry, "inner,tier") == ["openai/b", "xai/c", "groq/a"]
    assert registry.aliases() == {"tier": "groq/a, inner", "inner": "openai/b,xai/c"}


def test_an_alias_may_stand_twice() -> None:
    registry = empty()
    registry.alias("a", "groq/x")
    registry.alias("b", "a,a")
    assert names(registry, "b,a,b") == ["groq/x"]


def test_a_circle_is_named() -> None:
    registry = empty()
    registry.alias("start", "a")
    registry.alias("a", "groq/x,b")
    registry.alias("b", "c")
    registry.alias("c", "a")
    with pytest.raises(SetupError, match=r"^aliases form a cycle: a -> b -> c -> a$"):
        registry.targets("start")


def test_an_alias_of_itself_is_a_circle() -> None:
    registry = empty()
    registry.alias("a", "a")
    with pytest.raises(SetupError, match=r"^aliases form a cycle: a -> a$"):
        registry.targets("a")


@pytest.mark.parametrize("name", ["", " ", "a/b", "a,b"])
def test_an_alias_is_a_bare_token(name: str) -> None:
    with pytest.raises(SetupError, match="the name of an alias must be a text without slash"):
        empty().alias(name, "groq/x")


def test_an_alias_stands_for_a_text() -> None:
    spec: Any = ["groq/x"]
    with pytest.raises(SetupError, match="spec must be a str"):
        empty().alias("a", spec)


def test_an_unknown_alias_is_refused_with_a_suggestion_and_its_path() -> None:
    registry = empty()
    registry.alias("simple", "simpel")
    with pytest.raises(
        SetupError,
        match=r"^model must be provider/model or an alias, got 'simpel' \(in simple\); did you mean 'simple'\?$",
    ):
        registry.targets("simple")


def test_a_provider_without_a_model_is_refused() -> None:
    with pytest.raises(
        SetupError, match=r"^model must be provider/model or an alias, got 'groq'; add the model: groq/…$"
    ):
        empty().targets("groq")


def test_an_alias_with_an_empty_element_is_refused() -> None:
    with pytest.raises(SetupError, match="without empty elements"):
        empty().alias("a", "groq/x,")


def test_an_empty_element_of_a_resolver_says_where() -> None:
    registry = empty()
    registry.add_resolver(lambda _: "groq/x,")
    with pytest.raises(SetupError, match=r"must not have empty elements, got 'groq/x,' \(in a\)"):
        registry.targets("a")


def test_aliases_that_double_each_time_expand_quickly() -> None:
    registry = empty()
    for level in range(50):
        registry.alias(f"a{level}", f"a{level + 1},a{level + 1}")
    registry.alias("a50", "groq/x")
    assert names(registry, "a0") == ["groq/x"]


ALIASES = st.dictionaries(
    st.sampled_from("abcd"),
    st.lists(st.sampled_from(["a", "b", "c", "d", "groq/x", "groq/y", "xai/z"]), min_size=1, max_size=4),
)


def by_hand(elements: list[str], aliases: dict[str, list[str]], path: tuple[str, ...] = ()) -> Iterator[str]:
    """The rules again: what an alias stands for, in its place; None stands for what is wrong."""
    for element in elements:
        if "/" in element:
            yield element
        elif element in path or element not in aliases:
            raise LookupError
        else:
            yield from by_hand(aliases[element], aliases, (*path, element))


@given(ALIASES, st.lists(st.sampled_from(["a", "b", "c", "groq/x", "xai/z"]), min_size=1, max_size=4))
def test_expansion_follows_the_rules_whatever_the_aliases(aliases: dict[str, list[str]], spec: list[str]) -> None:
    registry = empty()
    for name, elements in aliases.items():
        registry.alias(name, " , ".join(elements))
    try:
        expected = list(dict.fromkeys(by_hand(spec, aliases)))
    except LookupError:
        with pytest.raises(SetupError, match=r"cycle|or an alias, got"):
            registry.targets(",".join(spec))
    else:
        assert names(registry, ",".join(spec)) == expected


@given(st.text(min_size=1, max_size=30))
def test_any_model_id_is_kept(model: str) -> None:
    expected = f"groq/{model}".strip()
    if "," not in model and model.strip():
        assert names(empty(), f"groq/{model}") == [expected]


# Resolvers ------------------------------------------------------------------------------------------------------------


def test_resolvers_are_called_after_aliases_in_the_order_of_adding() -> None:
    registry, calls = empty(), list[str]()

    def first(name: str) -> str | None:
        calls.append(f"first {name}")
        return "groq/one" if name == "one" else None

    def second(name: str) -> str | None:
        calls.append(f"second {name}")
        return "groq/second"

    registry.alias("static", "groq/static")
    registry.add_resolver(first)
    registry.add_resolver(second)
    assert names(registry, "static,one,two") == ["groq/static", "groq/one", "groq/second"]
    assert calls == ["first one", "first two", "second two"]


def test_what_a_resolver_says_expands_under_the_same_guard() -> None:
    registry = empty()
    registry.alias("a", "b")
    registry.add_resolver(lambda name: "a,groq/x" if name == "b" else None)
    with pytest.raises(SetupError, match="a -> b -> a"):
        registry.targets("a")


def test_a_resolver_that_goes_on_for_ever_is_stopped() -> None:
    registry = empty()
    registry.add_resolver(lambda name: name + "x")
    with pytest.raises(SetupError, match="64 deep: a -> ax -> axx"):
        registry.targets("a")


def test_a_resolver_may_add_another() -> None:
    registry = empty()

    def resolver(name: str) -> None:
        registry.add_resolver(lambda _: "groq/late")

    registry.add_resolver(resolver)
    with pytest.raises(SetupError):
        registry.targets("a")
    assert names(registry, "a") == ["groq/late"]


# Providers ------------------------------------------------------------------------------------------------------------


def test_an_unknown_provider_is_refused_with_its_variable_and_a_suggestion() -> None:
    with pytest.raises(SetupError) as caught:
        empty().targets("my-grok/x")
    assert str(caught.value) == (
        "unknown provider 'my-grok': it is not registered, and LLM_MY_GROK is not set; "
        "dragoman providers lists the known ones"
    )
    with pytest.raises(SetupError, match=r"; did you mean 'groq'\?$"):
        empty().targets("grok/x")


def test_registered_providers_come_before_lazy_variables() -> None:
    env: dict[str, str] = {}
    registry = Registry(env=env)
    env["LLM_GROQ"] = "openai://elsewhere"
    assert registry.provider("groq") is PROVIDERS["groq"]


def test_all_providers_are_listed() -> None:
    assert empty(LLM_BOX="ollama://box").providers() == sorted([*PROVIDERS, "box"])


def test_construction_never_fails_for_a_missing_key() -> None:
    env = {"AWS_REGION": "us-east-1", "GOOGLE_CLOUD_PROJECT": "p", "ANTHROPIC_FOUNDRY_RESOURCE": "r"}
    registry = Registry(env=env)
    targets = [registry.target(f"{name}/m") for name, record in PROVIDERS.items() if record.base_url]
    assert not any(target.api_key for target in targets)


def test_a_key_is_read_when_it_is_used() -> None:
    env: dict[str, str] = {}
    registry = Registry(env=env)
    assert registry.target("groq/x").api_key is None
    env["GROQ_API_KEY"] = "k"
    assert registry.target("groq/x").api_key == "k"


def test_a_key_of_the_registry_is_for_those_who_have_none_of_their_own() -> None:
    registry = Registry(env={"GROQ_API_KEY": "env", "LLM_BOX": "openai://own@box"}, api_key="all")
    assert registry.target("groq/x").api_key == "all"
    assert registry.target("box/x").api_key == "own"


def test_a_base_url_of_the_registry_is_for_those_known_from_the_start() -> None:
    registry = Registry(env={"OPENAI_BASE_URL": "http://env", "LLM_BOX": "openai://box"}, base_url="https://proxy/v1")
    assert registry.target("openai/x").base_url == "https://proxy/v1"
    assert registry.target("box/x").base_url == "https://box/v1"


# Providers of the environment -----------------------------------------------------------------------------------------


MALFORMED = [
    "",
    "box",
    "gpt-4",
    "sk-secret-key",
    "://box",
    "openai://",
    "openai:///v1",
    "openai://k@",
    "openai://k@/v1",
]


def test_a_dsn_has_the_facts_of_its_scheme() -> None:
    target = empty(LLM_BOX="ollama://box").target("box/gpt-oss:20b")
    assert (target.wire, target.quirks.reasoning) == ("ollama", "level")


def test_a_key_is_never_sent_to_another_server() -> None:
    registry = Registry(env={"OPENAI_API_KEY": "secret", "LLM_BOX": "openai+http://box:8080/v1"})
    http = build_request(Request(messages=(user("hi"),)), registry.target("box/m"))
    assert "secret" not in str(dict(http.headers))


def test_a_new_registry_defines_a_provider_for_each_variable() -> None:
    registry = empty(LLM_MY_BOX="ollama+http://box:11434", LLM_Two="groq://k@two", OTHER="x", LLM_="x")
    assert names(registry, "my_box/a,two/b") == ["my_box/a", "two/b"]
    with pytest.raises(SetupError):
        registry.targets("other/x")


def test_an_eager_name_keeps_its_underscores_and_a_lazy_one_its_dashes() -> None:
    registry = empty(LLM_MY_BOX="ollama+http://box:11434")
    assert registry.target("my_box/a").provider == "my_box"
    assert registry.target("my-box/a").provider == "my-box"


class Counted(dict[str, str]):
    """An environment that counts lookups of one variable."""

    lookups = 0

    def __getitem__(self, name: str) -> str:
        self.lookups += name == "LLM_LATE_ONE"
        return super().__getitem__(name)


def test_a_lazy_variable_is_looked_up_once() -> None:
    env = Counted()
    registry = Registry(env=env)
    env["LLM_LATE_ONE"] = "ollama+http://box"
    assert registry.target("late-one/x").base_url == "http://box"
    del env["LLM_LATE_ONE"]
    assert registry.target("late-one/x").base_url == "http://box"
    assert env.lookups == 1


@pytest.mark.parametrize("dsn", MALFORMED)
def test_a_malformed_variable_never_fails_construction_and_is_raised_when_used(dsn: str) -> None:
    registry = empty(LLM_BAD=dsn, LLM_GOOD="ollama://box")
    assert names(registry, "good/x") == ["good/x"]
    for _ in range(2):
        with pytest.raises(SetupError, match="LLM_BAD must be scheme"):
            registry.targets("good/x,bad/x")


def test_a_malformed_variable_that_is_set_later_raises_too() -> None:
    env: dict[str, str] = {}
    registry = Registry(env=env)
    env["LLM_BAD"] = "nonsense"
    with pytest.raises(SetupError, match="must be scheme"):
        registry.targets("bad/x")
    del env["LLM_BAD"]
    with pytest.raises(SetupError, match="must be scheme"):
        registry.targets("bad/x")


def test_loading_gives_back_the_malformed_ones() -> None:
    registry = empty()
    broken = registry.load_env({"LLM_BAD_ONE": "nonsense", "LLM_GOOD": "ollama://box", "PATH": "/bin"})
    assert list(broken) == ["bad_one"]
    assert isinstance(broken["bad_one"], SetupError)
    assert names(registry, "good/x") == ["good/x"]


def test_a_malformed_variable_hides_a_provider_known_from_the_start() -> None:
    with pytest.raises(SetupError, match="LLM_GROQ must be scheme"):
        empty(LLM_GROQ="nonsense").targets("groq/x")


def test_a_variable_replaces_a_built_in_provider() -> None:
    assert empty(LLM_GROQ="openai://proxy").target("groq/x").base_url == "https://proxy/v1"


def test_what_was_malformed_may_be_put_right() -> None:
    registry = empty(LLM_BAD="nonsense", LLM_WORSE="nonsense")
    registry.load_env({"LLM_BAD": "ollama://box"})
    registry.add_provider(name="worse", like="groq")
    assert names(registry, "bad/x,worse/x") == ["bad/x", "worse/x"]


def test_a_users_scheme_may_come_after_its_variable() -> None:
    registry = empty(LLM_BOX="mine+http://k@box/x")
    with pytest.raises(SetupError, match="LLM_BOX: unknown scheme"):
        registry.targets("box/m")
    registry.add_scheme("Mine", Provider(name="mine", wire="anthropic", auth="x-mine"))
    target = registry.target("box/m")
    assert (target.wire, target.auth, target.base_url) == ("anthropic", "x-mine", "http://box/x")


@pytest.mark.parametrize("scheme", ["", "a+b", "a:b", "a/b", "a b"])
def test_a_scheme_is_a_word(scheme: str) -> None:
    with pytest.raises(SetupError, match="scheme must be a name"):
        empty().add_scheme(scheme, "openai")


@given(st.dictionaries(st.text(), st.text()))
def test_no_environment_fails_construction(env: Mapping[str, str]) -> None:
    Registry(env={f"LLM_{name}": value for name, value in env.items()})


# Limits ---------------------------------------------------------------------------------------------------------------


def test_capabilities_are_of_a_provider_or_of_a_model() -> None:
    registry = empty()
    registry.set_capabilities("openai", max_images=9, tools=False)
    registry.set_capabilities("openai/m", max_image_side=32, max_image_bytes=1000, max_images=2)
    registry.set_capabilities("openai/m", allowed_image_types=["image/png"], structured=False)
    capabilities = registry.target("openai/m").capabilities
    assert (capabilities.max_image_side, capabilities.max_image_bytes, capabilities.max_images) == (32, 1000, 2)
    assert (capabilities.allowed_image_types, capabilities.structured, capabilities.tools) == (
        ("image/png",),
        False,
        False,
    )
    assert registry.target("openai/other").capabilities.max_images == 9
    assert registry.target("groq/m").capabilities.tools


def test_quirks_are_facts_too() -> None:
    registry = empty()
    known = registry.target("openai/m").quirks
    registry.set_capabilities("openai/m", max_tokens_field="max_tokens")
    assert registry.target("openai/m").quirks == replace(known, max_tokens_field="max_tokens")


def test_a_cached_target_gets_later_keys_and_capabilities() -> None:
    env = {"GROQ_API_KEY": "old"}
    registry = Registry(env=env)
    registry.target("groq/m")
    env["GROQ_API_KEY"] = "new"
    registry.set_capabilities("groq/m", max_images=2)
    later = registry.target("groq/m")
    registry.add_provider(name="groq", like="groq", base_url="https://elsewhere/v1")
    assert (later.api_key, later.capabilities.max_images) == ("new", 2)
    moved = registry.target("groq/m")
    assert (moved.base_url, moved.capabilities.max_images) == ("https://elsewhere/v1", 2)


def test_the_cache_of_models_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.registry.MAX_CACHED", 2)
    registry = empty()
    assert [registry.target(f"ollama/m{number}").model for number in range(5)] == ["m0", "m1", "m2", "m3", "m4"]


def test_set_capabilities_override_those_of_the_family() -> None:
    registry = empty()
    registry.set_capabilities("anthropic", max_output=5)
    assert registry.target("anthropic/claude-opus-5").capabilities.max_output == 5


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"max_image": 1}, "unknown capability 'max_image'; did you mean 'max_images'"),
        ({"tools": "no"}, "tools must be bool, got str"),
        ({"max_images": -1}, "max_images must be int >= 0"),
        ({"max_image_side": 0}, "max_image_side must be int >= 1"),
        ({"max_image_bytes": 1.5}, "max_image_bytes must be int, got float"),
        ({"allowed_image_types": ["png"]}, "allowed_image_types[0] must be str matching regex"),
        ({"allowed_image_types": "image/png"}, "allowed_image_types must be array, got str"),
    ],
)
def test_a_limit_that_is_wrong_says_what_is(facts: dict[str, Any], why: str) -> None:
    with pytest.raises(SetupError, match=re.escape(why)):
        empty().set_capabilities("openai/m", **facts)


def test_capabilities_need_a_name() -> None:
    with pytest.raises(SetupError, match="name must be a provider or provider/model"):
        empty().set_capabilities(" ", tools=False)


# Keys and places ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("around", ["{}\n", "\r\n{} ", "\t{}"])
def test_white_space_around_a_key_is_none_of_it(around: str) -> None:
    key = around.format("sk-1")
    registry = empty(OPENAI_API_KEY=key, LLM_BOX=f"openai://{key.strip()}@box")
    registry.add_provider(name="own", like="groq", api_key=key)
    keys = [registry.target(f"{name}/m").api_key for name in ("openai", "box", "own")]
    assert keys == ["sk-1"] * 3
    assert Registry(env={}, api_key=key).target("groq/m").api_key == "sk-1"


def test_a_key_of_white_space_is_none() -> None:
    assert empty(GEMINI_API_KEY=" \n", GOOGLE_API_KEY="k").target("google/m").api_key == "k"
    assert empty(GEMINI_API_KEY=" \n").target("google/m").api_key is None


@pytest.mark.parametrize("character", ["\n", "\r", "\0", "\x7f", "…", "\ufeff"])
def test_a_key_that_cannot_be_sent_is_refused_and_not_shown(character: str) -> None:
    key = f"hu{character}sh"
    makers: list[Callable[[], object]] = [
        lambda: empty(OPENAI_API_KEY=key).target("openai/m"),
        lambda: empty(LLM_BOX=f"openai://{key}@box").target("box/m"),
        lambda: empty().add_provider(name="own", like="groq", api_key=key),
        lambda: Registry(env={}, api_key=key).target("groq/m"),
    ]
    for make in makers:
        with pytest.raises(SetupError, match="must be a str of printable ASCII") as caught:
            make()
        assert not re.search("hu|sh", str(caught.value))
        assert caught.value.__cause__ is None


def test_a_key_that_is_not_a_str_is_refused() -> None:
    env: Any = {"OPENAI_API_KEY": 5}
    with pytest.raises(SetupError, match="openai: OPENAI_API_KEY must be a str of printable"):
        Registry(env=env).target("openai/m")


def test_a_base_url_without_a_path_has_the_records_own_wherever_it_comes_from() -> None:
    place = "https://box:8080"
    registry = empty(ANTHROPIC_BASE_URL=place, LLM_DSN="anthropic://box:8080")
    registry.add_provider(name="code", like="anthropic", base_url=place)
    registry.load_config(f'[providers.toml]\nlike = "anthropic"\nbase_url = "{place}/"')
    registry.add_provider(PROVIDERS["anthropic"], name="record", base_url=place)
    names = ["anthropic", "dsn", "code", "toml", "record"]
    assert {registry.target(f"{name}/m").base_url for name in names} == {f"{place}/v1"}
    assert Registry(env={}, base_url=place).target("azure/m").base_url == f"{place}/openai/v1"


@pytest.mark.parametrize("name", ["openai", "vllm", "lmstudio", "llama-cpp", "llama-swap"])
def test_a_host_alone_is_a_base_url_with_and_without_its_scheme(name: str) -> None:
    variable = f"{name.upper().replace('-', '_')}_BASE_URL"
    for value in ("box:8080", "http://box:8080", "http://box:8080/"):
        assert empty(**{variable: value}).target(f"{name}/m").base_url == "http://box:8080/v1"
    assert empty(**{variable: "http://box:8080/llm"}).target(f"{name}/m").base_url == "http://box:8080/llm"


def test_a_path_of_nothing_is_a_path() -> None:
    registry = empty()
    registry.add_provider(name="own", like="openai", base_url="http://box", path="")
    assert registry.target("own/m").base_url == "http://box"


@pytest.mark.parametrize("url", ["https://h/v1?key=hush", "https://h?key=hush", "https://h/v1#hush", "h?key=hush"])
def test_a_query_of_a_base_url_is_refused_and_not_shown(url: str) -> None:
    makers: list[Callable[[], object]] = [
        lambda: empty(OPENAI_BASE_URL=url).target("openai/m"),
        lambda: empty(LLM_BOX=f"openai://k@{url.partition('://')[2] or url}").target("box/m"),
        lambda: empty().add_provider(name="own", like="groq", base_url=url),
        lambda: Registry(env={}, base_url=url).target("groq/m"),
    ]
    for make in makers:
        with pytest.raises(SetupError, match=r"must not have a query|must be a URL") as caught:
            make()
        assert "hush" not in str(caught.value)


def test_a_variable_that_is_not_a_base_url_is_named() -> None:
    with pytest.raises(SetupError, match=r"^openai: OPENAI_BASE_URL: base_url must not have a query"):
        empty(OPENAI_BASE_URL="https://h?a=b").target("openai/m")


@pytest.mark.parametrize(("name", "variable"), [("openai", "OPENAI_BASE_URL"), ("ollama", "OLLAMA_HOST")])
def test_config_and_code_override_the_environment(name: str, variable: str) -> None:
    env = {variable: "http://env:1/v0", f"{name.upper()}_API_KEY": "env"}
    fields = {"base_url": "http://own:2/v9", "api_key": "own"}
    by_config, by_code, by_record = (Registry(env=env) for _ in range(3))
    by_config.load_config({"providers": {name: {"like": name, **fields}}})
    by_code.add_provider(like=name, **fields)
    by_record.add_provider(PROVIDERS[name], **fields)
    for registry in (by_config, by_code, by_record):
        target = registry.target(f"{name}/m")
        assert (target.base_url, target.api_key) == ("http://own:2/v9", "own")


def test_a_record_without_a_base_url_uses_the_environment() -> None:
    registry = empty(OPENAI_BASE_URL="http://env:1/v1")
    registry.add_provider(like="openai", headers={"x-team": "a"})
    assert registry.target("openai/m").base_url == "http://env:1/v1"


# What is no spec ------------------------------------------------------------------------------------------------------


def test_a_list_of_specs_is_a_chain() -> None:
    registry = empty()
    registry.alias("pair", "groq/a,xai/b")
    assert [target.name for target in registry.targets(["pair", "zai/c , groq/a"])] == ["groq/a", "xai/b", "zai/c"]
    assert registry.capabilities(("deepseek/x", "openai/y")).max_images == 0


@pytest.mark.parametrize("spec", [None, 5, ["groq/a", None], {"groq/a"}, b"groq/a"])
def test_a_value_that_is_not_a_spec_is_refused(spec: Any) -> None:
    with pytest.raises(SetupError, match=r"spec must be a str such as '.*', or a list of these, got "):
        empty().targets(spec)


def test_an_empty_list_is_no_chain() -> None:
    with pytest.raises(SetupError, match="empty elements"):
        empty().targets([])


def test_a_resolver_may_give_a_list_and_nothing_else() -> None:
    registry = empty()
    answers: dict[str, Any] = {"pair": ["groq/a", "xai/b"], "five": 5}
    registry.add_resolver(answers.get)
    assert names(registry, "pair") == ["groq/a", "xai/b"]
    with pytest.raises(SetupError, match="spec must be a str"):
        registry.targets("five")


def test_a_variable_that_is_no_text_is_malformed() -> None:
    env: Any = {"LLM_Z": 5}
    assert list(empty().load_env(env)) == ["z"]


def test_a_name_in_capitals_gets_a_suggestion() -> None:
    with pytest.raises(SetupError, match=r"did you mean 'demo'\?"):
        empty().targets("DEMO/any")


# ── targets are resolved once ───────────────────────────────────────────────


def test_the_targets_of_a_spec_are_resolved_once() -> None:
    registry = empty()
    one, other = registry.targets("demo/any"), registry.targets("demo/any")
    assert one[0] is other[0]
    one.clear()
    assert registry.targets("demo/any") == other


def test_a_variable_that_changes_is_seen_by_the_next_call() -> None:
    env: dict[str, str] = {}
    registry = Registry(env=env)
    assert registry.targets("groq/llama")[0].api_key is None
    env["GROQ_API_KEY"] = "first"
    assert registry.targets("groq/llama")[0].api_key == "first"
    env["GROQ_API_KEY"] = "second"
    assert registry.targets("groq/llama")[0].api_key == "second"
    env.update(OPENAI_API_KEY="k", OPENAI_BASE_URL="https://proxy.test/v1")
    assert registry.targets("openai/m")[0].base_url == "https://proxy.test/v1"
    del env["OPENAI_BASE_URL"]
    assert registry.targets("openai/m")[0].base_url == "https://api.openai.com/v1"


def test_a_definition_is_seen_by_the_next_call() -> None:
    registry = empty()
    registry.alias("fast", "demo/any")
    assert registry.targets("fast")[0].model == "any"
    registry.alias("fast", "demo/other")
    assert registry.targets("fast")[0].model == "other"
    registry.load_tables({"aliases": {"fast": "ollama/x"}})
    assert registry.targets("fast")[0].provider == "ollama"
    registry.add_provider(like="ollama", base_url="http://box:1")
    assert registry.targets("fast")[0].base_url == "http://box:1"
    registry.set_capabilities("ollama", max_images=3)
    assert registry.targets("fast")[0].capabilities.max_images == 3
    registry.load_env({"LLM_OLLAMA": "ollama+http://other:2"})
    assert registry.targets("fast")[0].base_url == "http://other:2"


def test_a_resolver_is_called_for_each_call() -> None:
    registry, answers = empty(), iter(["demo/one", "demo/two"])
    registry.add_resolver(lambda _: next(answers))
    assert [registry.targets("bare")[0].model for _ in range(2)] == ["one", "two"]


def test_a_colon_is_looked_at_for_each_call() -> None:
    env: dict[str, str] = {}
    registry = Registry(env=env)
    registry.alias("box:m", "demo/any")
    assert registry.targets("box:m")[0].provider == "demo"
    assert registry.targets("demo:m")[0].model == "m"


def test_no_more_specs_are_stored_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.registry.MAX_CACHED", 3)
    registry = empty()
    for number in range(10):
        assert registry.targets(f"demo/{number}")[0].model == f"{number}"
    assert len(vars(registry)["_resolved"]) <= 3
