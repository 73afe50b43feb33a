"""A dragoman.toml in, a config or all of its problems out."""

import os
import re
from pathlib import Path

import pytest

from dragoman.errors import SetupError
from dragoman.gateway.auth.api_keys import new_key
from dragoman.gateway.catalog import Catalog
from dragoman.gateway.config import Config, configure_registry, decode_config
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.server.start_checks import check_shared_limits
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "gateway.md"


def catalog(config: Config, env: dict[str, str] | None = None) -> Catalog:
    return Runtime(config, env or {}).catalog


def test_nothing_at_all_is_the_demo_and_whose_keys_are_there() -> None:
    env = {"GROQ_API_KEY": "k", "LLM_BOX": "ollama+http://box:11434", "OPENAI_API_KEY": ""}
    assert decode_config("", env).providers == {"demo", "groq", "box"}


def test_a_config_that_names_providers_leaves_out_the_others() -> None:
    text = '[aliases]\nfast = "openai/gpt"\n[providers.mine]\nlike = "vllm"\nbase_url = "http://box/v1"\n'
    assert decode_config(text, {"GROQ_API_KEY": "k"}).providers == {"openai", "mine"}


def test_more_providers_can_be_named() -> None:
    assert decode_config('[gateway]\nproviders = ["demo", "groq"]\n').providers == {"demo", "groq"}


def test_variables_stand_in_texts() -> None:
    text = '[gateway]\nport = "${PORT}"\nstore = "redis://${HOST:localhost}:6379/${DB:}"\n'
    gateway = decode_config(text, {"PORT": "81"}).gateway
    assert (gateway.port, gateway.store) == (81, "redis://localhost:6379/")


def test_a_value_of_a_variable_is_not_read_again() -> None:
    config = decode_config('[providers.x]\nlike = "vllm"\nbase_url = "http://x"\napi_key = "${K}"\n', {"K": "a${K}b"})
    assert config.tables["providers"]["x"]["api_key"] == "a${K}b"


def test_all_problems_are_reported_at_once() -> None:
    text = """
        gatway = 1
        [gateway]
        port = "many"
        hots = "x"
        providers = ["grok"]
        [chain]
        retries = -1
        classify = "x"
        [timeouts]
        total = "${NOPE}"
        [tiers.simple]
        models = {}
        [tiers.big]
        models = ["demo/any"]
        order = "dearest"
        [aliases]
        a = "b"
        b = "a"
        [keys.alice]
        hash = "nonsense"
        [keys.bob]
        modles = []
        concurrent = -1
    """
    with pytest.raises(SetupError) as caught:
        decode_config(text)
    message = str(caught.value)
    for problem in (
        "gatway: unknown table; did you mean 'gateway'?",
        "gateway.port must be a whole number >= 1, got 'many'",
        "gateway: unknown setting 'hots'; did you mean 'host'?",
        "gateway.providers: unknown provider 'grok'",
        "chain.retries must be a whole number >= 0, got -1",
        "chain: unknown setting 'classify'",
        "timeouts.total: variable NOPE is not set; set it, or write ${NOPE:default}",
        'tiers.simple.models must be a list such as ["groq/llama"]',
        "tiers.big.order must be cheapest, fastest, in_order, least_busy or weighted, got 'dearest'",
        "aliases.a: aliases form a cycle",
        "keys.alice.hash must be the hash of a key",
        "keys.bob: unknown setting 'modles'; did you mean 'models'?",
        "keys.bob.hash must be the hash of a key",
        "keys.bob.concurrent must be a whole number >= 0, got -1",
    ):
        assert problem in message


def test_a_variable_that_is_not_set_is_one_problem() -> None:
    with pytest.raises(SetupError) as caught:
        decode_config('keys.alice.hash = "${ALICE}"\nkeys.bob.hash = "no"')
    assert [line.split()[1] for line in str(caught.value).splitlines()[1:]] == ["keys.alice.hash:", "keys.bob.hash"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('timeouts.total = "x"', "timeouts.total must be seconds >= 0, got 'x'"),
        ("timeouts.idle = -1", "timeouts.idle must be seconds >= 0, got -1"),
        ("gateway.ping = 1e9", "gateway.ping must be seconds <= 86400, got 1000000000.0"),
        ("gateway.log = 3", "gateway.log must be true or false, got 3"),
        ('gateway.providers = "demo"', "gateway.providers must be a list, got 'demo'"),
        ("gateway.providers = [3]", "gateway.providers[0] must be a text, got 3"),
        ('gateway.store = "nix"', "gateway.store must be memory, sqlite:PATH or redis://HOST:PORT/DB, got 'nix'"),
        ('tiers.simple.modls = ["demo/any"]', "tiers.simple: unknown setting 'modls'; did you mean 'models'?"),
        ('tiers.simple.models = { "demo/any" = "x" }', "tiers.simple.models.demo/any must be a number, got 'x'"),
        (
            'tiers.simple = { models = ["demo/any"], order = "given" }',
            "must be cheapest, fastest, in_order, least_busy or weighted",
        ),
        ("keys.bob.budgets = [{ tokens = 1 }]", "keys.bob.budgets[0].per is required"),
        ('keys.bob.budgets = [{ per = "day", tokns = 1 }]', "keys.bob.budgets[0].tokns is not a known field"),
    ],
)
def test_a_problem_says_what_a_setting_must_be(text: str, problem: str) -> None:
    with pytest.raises(SetupError) as caught:
        decode_config(text)
    assert problem in str(caught.value)


def test_a_problem_of_a_provider_is_reported_with_the_others() -> None:
    with pytest.raises(SetupError) as caught:
        decode_config('[providers.x]\nwire = "nix"\n[gateway]\nport = []\n')
    assert "providers.x: " in str(caught.value)
    assert "gateway.port must be " in str(caught.value)


def test_names_are_checked_though_a_record_is_wrong() -> None:
    text = """
        [providers.broken]
        wire = "nix"
        [capabilities."groq/x"]
        max_imges = 3
        max_image_side = "wide"
        tols = true
        [capabilities."openai/x"]
        max_images = "many"
        max_image_side = "wide"
        [capabilities."grok/x"]
        max_images = 1
        [aliases]
        a = "b"
        b = "a"
        fine = "broken/x"
        "x/y" = "demo/any"
        [tiers.simple]
        models = ["nix/y"]
    """
    with pytest.raises(SetupError) as caught:
        decode_config(text)
    message = str(caught.value)
    for problem in (
        "providers.broken: ",
        "capabilities.groq/x: unknown capability 'max_imges'",
        "unknown capability 'tols'",
        "max_images must be int, got str; ",
        "capabilities.grok/x: unknown provider 'grok'",
        "aliases.a: aliases form a cycle",
        "aliases: the name of an alias must be a text without slash, comma, line break, got 'x/y'",
        "tiers.simple: unknown provider 'nix'",
    ):
        assert problem in message
    assert "aliases.fine" not in message


def test_a_path_that_cannot_be_a_store_is_reported(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    problems = {
        "nix/there.db": "must be in a folder that exists, got",
        "here": "must be a file, got the folder",
    }
    for path, problem in problems.items():
        with pytest.raises(SetupError) as caught:
            decode_config(f'[gateway]\nstore = "sqlite:{tmp_path / path}"\nport = 0\n')
        assert f"gateway.store {problem} {tmp_path / path}" in str(caught.value)
        assert "gateway.port must be " in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_that_may_not_be_written_is_no_store(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(SetupError, match=r"gateway\.store must be a writable file"):
        decode_config(f'[gateway]\nstore = "sqlite:{tmp_path / "a.db"}"\n')


@pytest.mark.parametrize("text", ["[", "[tiers]\nsimple = 1", "tiers = 1", "keys = 1", "gateway = 1", "providers = 1"])
def test_a_value_that_is_not_a_table_is_an_error(text: str) -> None:
    with pytest.raises(SetupError):
        decode_config(text)


def test_no_key_is_in_a_problem() -> None:
    with pytest.raises(SetupError) as caught:
        decode_config('[providers.x]\nlike = "vllm"\napi_key = "sk-secret-123456"\nnix = 1\n')
    assert "sk-secret" not in str(caught.value)


@pytest.mark.parametrize(
    "line",
    ['aliases.a = "${KEY}"', 'aliases.a = "${KEY}/m"', 'gateway.store = "${KEY}"', 'gateway.providers = ["${KEY}"]'],
)
def test_a_key_that_a_variable_put_in_the_wrong_place_is_not_shown(line: str) -> None:
    with pytest.raises(SetupError, match="invalid config") as caught:
        decode_config(line, {"KEY": "sk-hush-12345678"})
    assert "hush" not in str(caught.value)


def test_a_tier_is_an_alias_with_costs() -> None:
    found = catalog(decode_config('[tiers.simple]\nmodels = { "demo/any" = 1, "demo/slow" = 5 }\n')).find("simple")
    assert (found.options.order, found.options.costs["demo/slow"], found.tier) == ("weighted", 5.0, "simple")
    assert [target.name for target in found.targets] == ["demo/any", "demo/slow"]


def test_a_tier_with_a_list_is_tried_in_order() -> None:
    found = catalog(decode_config('[tiers.simple]\nmodels = ["demo/any", "demo/slow"]\n')).find("simple")
    assert found.options.order == "in_order"


def test_the_models_are_tiers_aliases_and_what_they_stand_for() -> None:
    text = '[tiers.simple]\nmodels = ["demo/any"]\n[aliases]\nslow = "demo/slow, groq/x"\n'
    names = [model.id for model in catalog(decode_config(text)).models()]
    assert names == ["simple", "slow", "demo/any", "demo/slow", "groq/x"]


def test_names_that_clients_make_up_are_not_kept_for_ever() -> None:
    from dragoman.gateway import catalog as module

    found = catalog(decode_config(""))
    for number in range(module.MAX_CACHED + 10):
        found.find(f"demo/{number}")
    assert len(found._cache) <= module.MAX_CACHED  # pyright: ignore[reportPrivateUsage] # the law is about it


def test_a_key_is_read_with_what_it_may() -> None:
    _, hash = new_key()
    text = f'[keys.alice]\nhash = "{hash}"\nmodels = ["demo/*"]\nrequests_per_minute = 5\n'
    key = decode_config(text).keys[0]
    assert (key.id, key.models, key.requests_per_minute) == ("alice", ("demo/*",), 5)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("requests_per_minute = -1", "keys.alice.requests_per_minute must be a whole number >= 0, got -1"),
        ('tokens_per_minute = "many"', "keys.alice.tokens_per_minute must be a whole number >= 0, got 'many'"),
        (
            'budgets = [{ per = "year", tokens = 1 }]',
            "keys.alice.budgets[0].per must be day, month or week, got 'year'",
        ),
        ('budgets = [{ per = "day" }]', "keys.alice.budgets[0]: the budget per day must have tokens or dollars"),
        ('budgets = [{ per = "day", dollars = nan }]', "keys.alice.budgets[0].dollars must be a number >= 0, got nan"),
        (
            'budgets = [{ per = "day", dollars = inf }]',
            "keys.alice.budgets[0].dollars must be a number <= 1e+06, got inf",
        ),
        ('budgets = [{ per = "day", tokens = 1 }, { per = "day", tokens = 2 }]', "budgets must limit different things"),
        ('id = "bob"', "keys.alice: unknown setting 'id'"),
    ],
)
def test_an_invalid_limit_is_reported(line: str, problem: str) -> None:
    with pytest.raises(SetupError) as caught:
        decode_config(f'[keys.alice]\nhash = "{new_key()[1]}"\n{line}\n')
    assert problem in str(caught.value)


def test_a_key_has_a_name_that_can_be_shown() -> None:
    with pytest.raises(SetupError, match="the name of a key must be"):
        decode_config(f'[keys."a:b\\n"]\nhash = "{new_key()[1]}"\n')


def test_two_keys_are_two_keys() -> None:
    _, hash = new_key()
    with pytest.raises(SetupError, match=r"keys\.bob\.hash is also the hash of keys\.alice"):
        decode_config(f'[keys.alice]\nhash = "{hash}"\n[keys.bob]\nhash = "{hash}"\n')


@pytest.mark.parametrize(
    "line",
    ['store = "mysql://u:secret-9@h"', 'store = "redis://u:secret-9@h:port"', "port = 0", "workers = 0", "ping = 0"],
)
def test_an_invalid_gateway_setting_is_reported(line: str) -> None:
    with pytest.raises(SetupError) as caught:
        decode_config(f"[gateway]\n{line}\n")
    assert f"gateway.{line.partition(' ')[0]}" in str(caught.value)
    assert "secret-9" not in str(caught.value)


@pytest.mark.parametrize("limits", ["concurrent = 1", 'team = "a"\n[teams.a]\nconcurrent = 1'], ids=["key", "team"])
def test_workers_without_a_shared_store_do_not_start_with_limits(limits: str) -> None:
    config = decode_config(f'[gateway]\nworkers = 2\n[keys.alice]\nhash = "{new_key()[1]}"\n{limits}\n')
    with pytest.raises(SetupError, match="store must be shared"):
        check_shared_limits(config.gateway, config)


def test_filling_a_registry_takes_tiers_too() -> None:
    from dragoman.registry import Registry

    registry = Registry(env={})
    configure_registry(registry, decode_config('[tiers.simple]\nmodels = ["demo/any"]\n'))
    assert registry.targets("simple")[0].name == "demo/any"


def test_the_config_of_the_page_is_right() -> None:
    text, *_ = re.findall(r"^```toml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    config = decode_config(text, {"ALICE_HASH": new_key()[1]})
    assert config.tiers.keys() == {"simple", "complex"}
    assert "box" in config.providers


def test_a_mark_at_the_start_of_a_config_is_none_of_it() -> None:
    assert decode_config("\ufeff[gateway]\nport = 1234").gateway.port == 1234


def test_the_reasoning_key_is_long_and_never_shown() -> None:
    with pytest.raises(SetupError, match="reasoning_key must have at least 32 characters, got 5") as caught:
        decode_config('[gateway]\nreasoning_key = "hush!"\n')
    assert "hush!" not in str(caught.value)
    config = decode_config(f'[gateway]\nreasoning_key = "{"hush" * 8}"\n')
    assert config.gateway.reasoning_key == "hush" * 8
    assert "hush" not in repr(config)
    assert "hush" not in str(config.gateway.__rich_repr__())


def test_clients_may_use_the_other_names_of_a_provider() -> None:
    config = decode_config('[providers.openai]\napi_key = "k"\n')
    assert config.providers == {"openai", "openai-chat", "openai-responses"}
    assert decode_config('[gateway]\nproviders = ["google"]\n').providers >= {"google", "gemini"}


def test_the_variable_of_an_empty_hash_is_named() -> None:
    with pytest.raises(SetupError) as caught:
        decode_config('keys.alice.hash = "${ALICE_HASH}"\nkeys.bob.hash = ""', {"ALICE_HASH": ""})
    alice, bob = str(caught.value).splitlines()[1:]
    assert alice.endswith("make one with `dragoman keys new NAME`; the variable ALICE_HASH is empty")
    assert bob.endswith("make one with `dragoman keys new NAME`")
