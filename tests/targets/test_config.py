import re
from typing import Any

import pytest

from dragoman.engine.health import Health
from dragoman.errors import SetupError
from dragoman.io.transport import make_transport
from dragoman.registry import Registry
from dragoman.targets.health_policy import HealthPolicy
from dragoman.targets.provider import Provider
from dragoman.targets.providers import PROVIDERS
from dragoman.targets.target import Capabilities


def names(registry: Registry, spec: str) -> list[str]:
    return [target.name for target in registry.targets(spec)]


def empty() -> Registry:
    return Registry(env={})


# Records of the user's own --------------------------------------------------------------------------------------------


def test_a_record_is_added_in_one_call() -> None:
    registry = empty()
    record = Provider(name="own", wire="ollama", base_url="https://own", capabilities=Capabilities(max_images=2))
    assert registry.add_provider(record) == record
    assert registry.target("own/m").capabilities.max_images == 2


def test_the_fields_of_a_record_are_enough() -> None:
    own = empty().add_provider(
        name="own", wire="ollama", base_url="https://own", api_key="k", key_names=["A"], capabilities={"max_images": 2}
    )
    assert (own.key_names, own.capabilities, own.api_key) == (("A",), Capabilities(max_images=2), "k")


def test_a_record_may_be_like_another_with_some_facts_changed() -> None:
    own = empty().add_provider(
        name="own",
        like="mistral",
        capabilities=Capabilities(max_images=2),
        quirks={"top_k": False},
        headers={"x-team": "a"},
    )
    old = PROVIDERS["mistral"]
    assert (own.capabilities.max_images, own.capabilities.image_urls) == (2, old.capabilities.image_urls)
    assert (own.quirks.top_k, own.quirks.call_id) == (False, old.quirks.call_id)
    assert (own.base_url, own.key_names, own.family) == (old.base_url, old.key_names, "mistral")


def test_a_copy_at_another_base_url_has_a_key_variable_of_its_own() -> None:
    registry = Registry(env={"OPENAI_API_KEY": "secret"})
    registry.add_provider(name="eu-openai", like="openai", base_url="https://eu.example/v1")
    target = registry.target("eu-openai/gpt-5")
    assert (target.api_key, target.key_names) == (None, ("EU_OPENAI_API_KEY",))
    assert target.quirks.efforts == registry.target("openai/gpt-5").quirks.efforts


@pytest.mark.parametrize("place", [{"base_url": "https://there/v1"}, {"base_url": ""}])
def test_credentials_of_a_record_are_not_copied_to_another_server(place: dict[str, str]) -> None:
    registry = empty()
    headers = {"X-Gateway-Key": "hush", "x-team": "tides"}
    registry.add_provider(name="corp", like="vllm", api_key="hush", headers=headers, http_client=make_transport())
    own = registry.add_provider(name="own", like="corp", **place)
    assert (own.api_key, own.headers, own.http_client) == (None, {"x-team": "tides"}, None)


def test_a_copy_at_the_same_base_url_keeps_the_credentials() -> None:
    registry = empty()
    corp = registry.add_provider(name="corp", like="vllm", headers={"x-key": "hush"}, http_client=make_transport())
    own = registry.add_provider(name="own", like="corp")
    assert (own.headers, own.http_client) == (corp.headers, corp.http_client)


def test_a_built_in_record_may_be_overridden() -> None:
    registry = Registry(env={"OPENAI_API_KEY": "secret"})
    registry.add_provider(like="openai", base_url="https://proxy/v1")
    assert registry.target("openai/m").base_url == "https://proxy/v1"
    assert registry.target("openai/m").api_key == "secret"


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"name": "x", "like": "grok"}, "like: unknown provider 'grok'; did you mean 'groq'?"),
        ({"name": "x", "like": "groq", "url": "y"}, "unknown provider field 'url'; did you mean 'base_url'"),
        ({"name": "x", "like": "groq", "bas_url": "y"}, "unknown provider field 'bas_url'; did you mean 'base_url'"),
        (
            {"name": "x", "wire": "openai_chat", "capabilities": {"max_image": 1}},
            "unknown capability 'max_image'; did you mean 'max_images'",
        ),
        ({"name": "x", "wire": "openai_chat", "quirks": {"top": 1}}, "unknown quirk 'top'"),
        ({"name": "x", "wire": "openai_chat", "capabilities": 3}, "capabilities must be a table, got int"),
        ({"name": "x", "wire": "openai_chat", "capabilities": {"max_images": "3"}}, "max_images must be int, got str"),
        ({"name": "x", "wire": "openai_chat", "needs_key": "yes"}, "provider.needs_key must be bool, got str"),
        ({"name": "x"}, "like is required: the provider whose protocol it speaks, such as openai-chat"),
        ({"name": "x", "wire": "carrier-pigeon"}, "x: unknown wire; use one of anthropic, bedrock, google"),
        ({"name": "x", "wire": "openai-chat"}, "x: unknown wire 'openai-chat'; did you mean 'openai_chat'"),
        ({"name": "x", "like": "carrier-pigeon"}, "like: unknown provider; use one of openai, "),
        ({"name": "x", "wire": "ollama", "base_url": "box:1"}, "x: base_url must be a URL with a scheme"),
        ({"name": "x", "wire": "ollama", "base_url": "http://box:one"}, "x: base_url must be a URL with a scheme"),
        ({"name": "x", "wire": "ollama", "auth": "x mine"}, "x: auth must be 'bearer' or the name of the header"),
        ({"name": "x", "wire": "ollama", "auth": ""}, "x: auth must be 'bearer' or the name of the header"),
        (
            {"name": "x", "wire": "ollama", "headers": {"a b": "c"}},
            "x: header 'a b' must have a name and a value that can be sent",
        ),
        ({"name": "a/b", "wire": "ollama"}, "name must be a provider's name without slash"),
        ({"name": "", "wire": "ollama"}, "name must be a provider's name without slash"),
    ],
)
def test_a_record_that_is_wrong_says_what_is(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(SetupError, match=re.escape(why)):
        empty().add_provider(**fields)


@pytest.mark.parametrize("auth", ["Bearer", "bearer", " BEARER "])
def test_bearer_is_a_way_and_no_header(auth: str) -> None:
    registry = empty()
    registry.add_provider(name="own", like="groq", auth=auth, api_key="k")
    assert registry.target("own/m").auth_headers() == {"authorization": "Bearer k"}


def test_a_header_that_cannot_be_sent_is_refused_without_its_value() -> None:
    with pytest.raises(SetupError, match="header 'x-own' must have a name and a value that can be sent") as caught:
        empty().add_provider(name="own", like="groq", headers={"x-own": "hu\nsh"})
    assert not re.search("hu|sh", str(caught.value))


def test_white_space_around_a_header_is_none_of_it() -> None:
    assert empty().add_provider(name="own", like="groq", headers={"x-own": "k\n"}).headers == {"x-own": "k"}


def test_a_record_is_not_also_like_another() -> None:
    with pytest.raises(SetupError, match="like must not be set together with a record"):
        empty().add_provider(PROVIDERS["groq"], like="openai")


# A config -------------------------------------------------------------------------------------------------------------

CONFIG = """
[providers.far]
like = "near"
base_url = "https://far/v1"

[providers.near]
like = "vllm"
base_url = "http://near:8000/v1"
capabilities = { max_images = 1 }
quirks = { named_choice = false }

[providers.openai]
like = "openai"
headers = { x-team = "a" }

[aliases]
fast = "near/qwen, groq/llama"
any = "fast,far/x"

[capabilities."groq/llama"]
max_images = 0
tools = false

[gateway]
port = 8080
"""


def test_a_config_has_providers_aliases_and_capabilities() -> None:
    registry = empty()
    registry.load_config(CONFIG)
    assert names(registry, "any") == ["near/qwen", "groq/llama", "far/x"]
    near, groq, far = registry.targets("any")
    assert (near.base_url, near.capabilities.max_images, near.quirks.named_choice) == ("http://near:8000/v1", 1, False)
    assert (far.base_url, far.capabilities.max_images) == ("https://far/v1", 1)
    assert (groq.capabilities.max_images, groq.capabilities.tools) == (0, False)
    assert registry.target("openai/m").headers == {"x-team": "a"}


def test_a_config_may_be_its_tables() -> None:
    registry = empty()
    registry.load_config({"aliases": {"fast": "groq/llama"}})
    assert names(registry, "fast") == ["groq/llama"]


def test_all_problems_of_a_config_are_in_one_error_and_nothing_is_taken() -> None:
    registry = empty()
    wrong = {
        "provider": {},
        "aliases": {"a/b": "groq/x", "ok": "groq/x", "list": ["groq/x"]},
        "providers": {
            "one": {"like": "grok"},
            "two": {"wire": "ollama", "base_url": "box"},
            "three": {"like": "four"},
            "four": {"like": "three"},
            "five": 5,
            "good": {"like": "groq"},
        },
        "capabilities": {"groq": {"max_image": 3}, "openai": 3},
    }
    with pytest.raises(SetupError) as caught:
        registry.load_config(wrong)
    problems = str(caught.value).splitlines()
    assert problems[0] == "invalid config:"
    starts = [problem.split(": ")[0] for problem in problems[1:]]
    assert sorted(starts) == [
        "- aliases",
        "- aliases",
        "- capabilities.groq",
        "- capabilities.openai",
        "- provider",
        "- providers.five",
        "- providers.four",
        "- providers.one",
        "- providers.three",
        "- providers.two",
    ]
    assert registry.aliases() == {}
    assert registry.providers() == sorted(PROVIDERS)


def test_a_table_is_a_table() -> None:
    with pytest.raises(SetupError, match="- aliases must be a table, got "):
        empty().load_config('aliases = "fast"')


def test_a_config_that_is_no_toml_says_where() -> None:
    with pytest.raises(SetupError, match=r"^config must be valid TOML; .*at line 1"):
        empty().load_config("[aliases]]\n")


def test_variables_stand_for_what_the_registrys_own_environment_says() -> None:
    registry = Registry(env={"BOX": "box:1", "KEY": "k\n"})
    text = """
        [providers.own]
        like = "vllm"
        base_url = "http://${BOX}/v1"
        api_key = "${KEY}"
        headers = { x-team = "${TEAM:tides}" }
        [aliases]
        fast = "own/${MODEL:qwen}"
        [gateway]
        host = "${NOT_OURS}"
    """
    registry.load_config(text)
    (target,) = registry.targets("fast")
    assert (target.name, target.base_url, target.api_key) == ("own/qwen", "http://box:1/v1", "k")
    assert target.headers == {"x-team": "tides"}


def test_variables_of_tables_are_filled_in_once() -> None:
    registry = Registry(env={"KEY": "a${KEY}b"})
    registry.load_config({"providers": {"own": {"like": "groq", "api_key": "${KEY}"}}})
    assert registry.target("own/m").api_key == "a${KEY}b"
    registry.load_tables({"providers": {"own": {"like": "groq", "api_key": "a${KEY}b"}}})
    assert registry.target("own/m").api_key == "a${KEY}b"


def test_a_variable_that_is_not_set_is_named_with_its_path() -> None:
    with pytest.raises(
        SetupError, match=r"- providers.own.api_key: variable KEY is not set; set it, or write \$\{KEY:default\}"
    ):
        empty().load_config('[providers.own]\nlike = "groq"\napi_key = "${KEY}"')


@pytest.mark.parametrize("key", ["sk-hush-12345678", "hush"])
@pytest.mark.parametrize("field", ["like", "wire", "name", "needs_key", "auth", "base_url", "capabilities"])
def test_no_problem_of_a_config_says_the_value_of_a_variable(field: str, key: str) -> None:
    fields = {"like": "vllm", field: "${KEY} x"}
    with pytest.raises(SetupError, match=r"^invalid config:\n- providers\.own: ") as caught:
        Registry(env={"KEY": key}).load_config({"providers": {"own": fields}})
    assert "hush" not in str(caught.value)


def test_an_alias_cycle_is_refused_when_the_config_is_read() -> None:
    registry = empty()
    registry.alias("c", "a")
    config = {"aliases": {"a": "groq/x, b", "b": "c", "d": "a", "e": "e,unknown"}}
    with pytest.raises(SetupError) as caught:
        registry.load_config(config)
    assert str(caught.value).splitlines()[1:] == [
        "- aliases.a: aliases form a cycle: a -> b -> c -> a",
        "- aliases.e: aliases form a cycle: e -> e",
    ]
    assert registry.aliases() == {"c": "a"}


def test_a_provider_is_called_as_its_table_is() -> None:
    registry = empty()
    with pytest.raises(SetupError, match=r"providers.own: name must be the name of the table"):
        registry.load_config('[providers.own]\nlike = "groq"\nname = "other"')
    registry.load_config('[providers.own]\nlike = "groq"\nname = "own"')
    assert registry.target("own/m").provider == "own"


def test_a_mark_at_the_start_of_a_config_is_none_of_it() -> None:
    registry = empty()
    registry.load_config('\ufeff[aliases]\nfast = "groq/x"')
    assert names(registry, "fast") == ["groq/x"]


def test_a_path_as_text_is_refused() -> None:
    with pytest.raises(SetupError, match=r"config must be TOML text, got a path; pass Path\('conf/dragoman.toml'\)"):
        empty().load_config("conf/dragoman.toml")


@pytest.mark.parametrize("config", [None, 5, b"", ["fast"]])
def test_a_value_that_is_not_a_config_is_refused(config: Any) -> None:
    with pytest.raises(SetupError, match="config must be a Path, a TOML text or its tables, got "):
        empty().load_config(config)


def test_names_of_the_version_before_are_refused_with_the_new_ones() -> None:
    with pytest.raises(SetupError, match=r"- limits: the table is now called \[capabilities\]$"):
        empty().load_config('[limits."groq/llama"]\nmax_images = 0')
    with pytest.raises(SetupError, match=r"^'limits' is now called 'capabilities'$"):
        empty().add_provider(name="x", like="groq", limits={"max_images": 0})
    with pytest.raises(SetupError, match=r"^'lone_temperature' is now called 'temperature_excludes_top_p'$"):
        empty().set_capabilities("groq", lone_temperature=True)


# Health ---------------------------------------------------------------------------------------------------------------


def test_the_health_policy_is_a_table_of_the_config() -> None:
    registry = Registry(env={"BASE": "2.5"})
    registry.load_config('[health]\nthreshold = 4\nbase = "${BASE}"\nmultiplier = 3\ncap = 60\ndown_after = 30')
    assert registry.health.policy == HealthPolicy(threshold=4, base=2.5, multiplier=3.0, cap=60.0, down_after=30.0)


def test_a_config_without_a_health_policy_leaves_that_of_the_registry() -> None:
    registry = Registry(env={}, health_policy=HealthPolicy(threshold=9))
    registry.load_config('[aliases]\nfast = "demo/any"')
    assert registry.health.policy.threshold == 9


def test_all_problems_of_a_health_policy_are_listed() -> None:
    with pytest.raises(SetupError) as caught:
        empty().load_config('[health]\nthreshold = 0\nbase = "soon"\nmultiplier = 0.5\ntreshold = 3')
    assert str(caught.value).splitlines()[1:] == [
        "- health.threshold must be a whole number >= 1, got 0",
        "- health.base must be a number, got str",
        "- health.multiplier must be a number >= 1, got 0.5",
        "- health: unknown setting 'treshold'; did you mean 'threshold'?",
    ]


def test_a_registry_takes_a_health_or_a_policy() -> None:
    with pytest.raises(SetupError, match=r"^health must not be set together with health_policy"):
        Registry(env={}, health=Health(), health_policy=HealthPolicy())


# Known names ----------------------------------------------------------------------------------------------------------


def test_a_known_name_is_its_own_like() -> None:
    registry = Registry(env={})
    registry.load_config('[providers.anthropic]\nbase_url = "http://box:1"\napi_key = "k"')
    target = registry.target("anthropic/claude-x")
    assert (target.wire, target.base_url, target.api_key) == ("anthropic", "http://box:1/v1", "k")
    assert registry.add_provider(name="groq", api_key="k").wire == "openai_chat"


def test_a_known_name_with_a_wire_is_a_record_of_its_own() -> None:
    provider = Registry(env={}).add_provider(name="groq", wire="ollama", base_url="http://box:1")
    assert (provider.wire, provider.key_names) == ("ollama", ())


def test_an_unknown_name_needs_a_wire_or_a_like() -> None:
    with pytest.raises(SetupError, match="like is required"):
        Registry(env={}).add_provider(name="box", base_url="http://box:1")


@pytest.mark.parametrize("name", ["openai-chat", "openai-responses"])
def test_the_key_of_a_provider_is_that_of_its_other_names(name: str) -> None:
    registry = Registry(env={})
    registry.load_config('[providers.openai]\napi_key = "k"\nheaders = { x-team = "tides" }')
    target = registry.target(f"{name}/gpt-5.6")
    assert (target.api_key, target.headers["x-team"]) == ("k", "tides")
    assert target.wire == PROVIDERS[name].wire
    registry.add_provider(name="openai", api_key="k2")
    assert registry.target(f"{name}/gpt-5.6").api_key == "k2"
    registry.add_provider(name=name, api_key="own")
    registry.add_provider(name="openai", api_key="k3")
    assert registry.target(f"{name}/gpt-5.6").api_key == "own"


@pytest.mark.parametrize("tables", ["", "wire = 'ollama'\nbase_url = 'http://box:1'", "like = 'vllm'"])
def test_another_name_follows_its_table_only_if_it_is_the_same_service(tables: str) -> None:
    registry = Registry(env={})
    registry.load_config(f"[providers.openai]\n{tables}\napi_key = 'k'")
    assert registry.target("openai-responses/gpt-5.6").api_key == (None if tables else "k")


def test_a_table_of_another_name_may_come_before_the_one_with_the_key() -> None:
    registry = Registry(env={})
    registry.load_config(
        '[providers.openai-responses]\nheaders = { x-team = "tides" }\n[providers.openai]\napi_key = "k"\n'
    )
    target = registry.target("openai-responses/gpt-5.6")
    assert (target.api_key, target.headers["x-team"]) == ("k", "tides")


def test_the_key_of_google_is_that_of_gemini() -> None:
    registry = Registry(env={"LLM_GOOGLE": "google://k@box"})
    assert registry.target("gemini/gemini-3-pro").api_key == "k"
