"""The dashboard in a real browser, before a real gateway with traffic of some days."""

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from dragoman import wires
from dragoman.gateway.auth.api_keys import new_key
from dragoman.testing import FaultyServer, StallAfter
from dragoman.testing.script import render
from dragoman.types import Request
from tests.support.gateway.browser import Browser
from tests.support.gateway.dashboard import OPERATOR_CONFIG, ask, fill, view
from tests.support.gateway.live import PATIENCE, Gateway, chat, free_port
from tests.support.images import picture

VIEWS = ("overview", "requests", "usage", "keys", "teams", "models", "system", "playground")
WIDTHS = (1400, 1024, 390)
WORDS = "one two three"
SHOWN = sum(map(len, render(WORDS, wires.get("openai_chat"), Request(stream=True)).chunks[:2])) + 9
"""Bytes of the words and a bit of what follows them, as the provider streams them."""

CONTRAST = """
const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
function rgb(colour) {
  canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data];
}
const light = (c) => c.slice(0, 3).map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
function behind(node) {
  for (; node; node = node.parentElement) {
    const colour = rgb(getComputedStyle(node).backgroundColor);
    if (colour[3] === 255) return colour;
  }
  return [255, 255, 255, 255];
}
const poor = [];
for (const node of document.querySelectorAll("body *")) {
  const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
  if (!own || !node.checkVisibility() || node.disabled || node.closest("svg, .unseen, .skip, option")) continue;
  const [a, b] = [light(rgb(getComputedStyle(node).color)), light(behind(node))].sort((x, y) => y - x);
  if ((a + 0.05) / (b + 0.05) < 4.5) poor.push(node.textContent.trim() + " " + (a + 0.05) / (b + 0.05));
}
return poor;
"""
NAMELESS = """
const name = (n) => n.ariaLabel || n.labels?.[0]?.textContent.trim() || n.textContent.trim();
return [...document.querySelectorAll("a, button, input, select, textarea, summary")]
  .filter((n) => n.checkVisibility() && !name(n)).map((n) => n.outerHTML);
"""
OVERFLOW = """
const wide = document.documentElement.clientWidth;
const inScroll = (n) => n.parentElement?.closest(".scroll, pre, nav, .unseen, summary, .skip");
return [...document.querySelectorAll("body *")].filter((n) => n.checkVisibility() && !inScroll(n) && !n.matches(".skip, .unseen"))
  .filter((n) => n.getBoundingClientRect().right > wide + 1).map((n) => n.outerHTML.slice(0, 120));
"""


class Scene(NamedTuple):
    """The gateway of the tests and its keys."""

    gateway: Gateway
    admin: str
    keys: dict[str, str]

    def post(self, path: str, body: Any, key: str = "") -> tuple[int, Any]:
        status, _, answer = self.gateway.post(path, body, authorization=f"Bearer {key or self.admin}")
        return status, answer

    def get(self, path: str) -> Any:
        status, answer = self.gateway.get(f"/admin/api/{path}", authorization=f"Bearer {self.admin}")
        assert status == 200, answer
        return json.loads(answer)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    browser = Browser()
    try:
        yield browser
    finally:
        browser.stop()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("gateway")
    admin, hash = new_key()
    store = folder / "store.db"
    with Gateway(folder, OPERATOR_CONFIG.format(hash=hash, store=store)) as gateway:
        yield Scene(gateway, admin, fill(gateway, admin, store))


@pytest.fixture
def page(browser: Browser, scene: Scene) -> Iterator[Browser]:
    browser.size(1280)
    browser.scheme("light")
    sign_in(browser, scene, scene.admin)
    browser.complaints()
    yield browser
    assert [each for each in browser.complaints() if "the server responded with" not in each] == []


def sign_in(browser: Browser, scene: Scene, key: str) -> None:
    if not browser.driver.current_url.startswith(scene.gateway.url):
        browser.open(scene.gateway.url + "/dashboard/style.css")
    browser.run("sessionStorage.setItem('dragoman.key', arguments[0])", key)
    browser.open(scene.gateway.url + "/")
    browser.settle()


def card(page: Browser, name: str) -> str:
    page.find(f'.holder[data-name="{name}"]')
    return f'.holder[data-name="{name}"]'


def press(page: Browser, label: str, name: str) -> None:
    page.click(f'button[aria-label="{label}: {name}"]')


def put(page: Browser, **values: str) -> None:
    """Fill in the fields of a dialog."""
    for name, value in values.items():
        named = name.replace("_per_", "-") if name.startswith(("dollars", "tokens")) else name
        field = page.find(f"dialog [name='{named}']")
        if field.tag_name != "select":
            field.clear()
        field.send_keys(value)


def choose(page: Browser, selector: str, text: str) -> None:
    Select(page.find(selector)).select_by_visible_text(text)


def confirm(page: Browser) -> None:
    page.click("dialog .actions button")


def closed(page: Browser) -> None:
    page.wait(lambda: not page.all("dialog") or None)


# Overview -------------------------------------------------------------------------------------------------------------


def test_a_target_turns_red_on_cooldown_and_green_again(page: Browser, scene: Scene) -> None:
    selector = '.target[data-target="demo/overloaded"]'

    def colour() -> str:
        return str(page.run(f"return getComputedStyle(document.querySelector('{selector} .dot')).backgroundColor"))

    scene.post("/admin/api/targets/enable", {"target": "demo/overloaded"})
    page.find(f'{selector}[data-state="healthy"]')
    green = colour()
    assert scene.post("/v1/chat/completions", chat("demo/overloaded"))[0] == 503
    page.find(f'{selector}[data-state="cooldown"]')
    red = colour()
    assert page.run("return document.getElementById('news').textContent") == "demo/overloaded is now: cooldown"
    page.click(f"{selector} button")
    page.find(f'{selector}[data-state="healthy"]')
    assert colour() == green
    assert red != green


def test_figures_and_plots_are_those_of_the_ledger(page: Browser, scene: Scene) -> None:
    view(page, "overview?since=30d")
    page.wait(lambda: page.text("#figures dd").isdigit() or None)
    sums = scene.get("usage/sums?since=30d&by=total")["buckets"][0]
    assert page.text("#figures dd") in {str(sums["requests"] + more) for more in range(3)}
    assert sums["requests"] > 500
    for plot in ("requests", "tokens", "cost"):
        page.find(f"#plot-{plot} rect")
    assert len(page.all("#plot-latency path.line")) == 4
    for number in (3, 4):
        assert re.fullmatch(r"p95 \S+ m?s · p99 \S+ m?s", page.text(f"#figures div:nth-child({number}) small"))
    assert "served" in str(page.find("#plot-requests").get_attribute("aria-label"))
    days = len(page.all("#plot-requests g"))
    page.run("document.getElementById('overview-by').value = 'hour'")
    page.run("document.getElementById('overview-by').dispatchEvent(new Event('change'))")
    page.wait(lambda: len(page.all("#plot-requests g")) > days or None)
    assert "by=hour" in page.driver.current_url


def test_a_range_of_ones_own_is_part_of_the_address(page: Browser) -> None:
    view(page, "overview")
    choose(page, "#overview-span", "from … to …")
    page.wait(lambda: page.find("#overview-from").is_displayed() or None)
    assert re.search(r"since=\d+&until=\d+", page.driver.current_url)


# Requests -------------------------------------------------------------------------------------------------------------


def test_a_request_shows_its_attempts_and_has_a_link(page: Browser, scene: Scene) -> None:
    scene.post("/admin/api/targets/enable", {"target": "demo/overloaded"})
    scene.post("/v1/chat/completions", chat("fast", text="look at this"))
    view(page, "requests?model=fast&outcome=served&key=root")
    page.click(".request[data-outcome=served] summary")
    page.wait(lambda: len(page.all(".request[open] .attempt")) >= 2 or None)
    attempts = [attempt.text for attempt in page.all(".request[open] .attempt")]
    assert any("demo/overloaded" in attempt and "Overloaded" in attempt for attempt in attempts)
    assert "served" in attempts[-1]
    assert "openai_chat" in page.text(".request[open] .facts")
    page.click(".request[open] a")
    page.find("#one-request .attempt")
    page.click("#show-bodies")
    page.wait(lambda: "look at this" in page.text("#bodies") or None)
    assert "are deleted at" in page.text("#bodies")


def test_requests_are_filtered_and_paged(page: Browser, scene: Scene) -> None:
    view(page, "requests?since=30d")
    page.wait(lambda: len(page.all(".request[data-id]")) == 50 or None)
    page.click("#older")
    page.wait(lambda: len(page.all(".request[data-id]")) == 100 or None)
    page.find("#filter-key").send_keys("carol", Keys.ENTER)
    count = len(scene.get("usage/requests?since=30d&key=carol&limit=1000")["requests"])
    page.wait(lambda: len(page.all(".request[data-id]")) == min(count, 50) or None)
    choose(page, "#filter-outcome", "failed")
    page.wait(lambda: all("failed" in each.text for each in page.all(".request .outcome")) or None)
    assert "key=carol" in page.driver.current_url
    page.find("#filter-target").send_keys("nobody/here", Keys.ENTER)
    page.wait(lambda: "No request fits" in page.text("#no-rows") or None)


def test_the_tail_is_live(page: Browser, scene: Scene) -> None:
    view(page, "requests?key=carol&since=1h")
    page.settle()
    before = len(page.all(".request[data-id]"))
    scene.post("/v1/chat/completions", chat("demo/any"), scene.keys["carol"])
    page.wait(lambda: len(page.all(".request[data-id]")) == before + 1 or None)


def test_exports_are_the_csv_of_the_filters(page: Browser) -> None:
    page.run(
        """window.saved = []; URL.createObjectURL = (blob) => { blob.text().then((t) => window.saved.push(t)); return "#"; };
        HTMLAnchorElement.prototype.click = () => 0"""
    )
    view(page, "requests?since=30d&key=carol")
    page.click("#requests-csv")
    page.wait(lambda: page.run("return window.saved.length") == 1 or None)
    view(page, "usage?group=team")
    page.click("#usage-csv")
    page.wait(lambda: page.run("return window.saved.length") == 2 or None)
    requests, usage = (list(csv.DictReader(io.StringIO(text))) for text in page.run("return window.saved"))
    assert {row["key"] for row in requests} == {"carol"}
    assert {row["team"] for row in usage} >= {"research", "support"}


# Usage ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", ["key", "team", "model", "target", "user"])
def test_costs_are_shown_by_day_and_group(page: Browser, scene: Scene, group: str) -> None:
    view(page, f"usage?group={group}&metric=cost")
    page.find("#plot-usage rect")
    largest = max(scene.get(f"usage/sums?since=30d&by=total&group={group}")["buckets"], key=lambda each: each["cost"])
    first = page.text("#usage-table tbody tr td")
    assert first == (largest[group] or {"user": "no end user"}.get(group))
    assert "$" in page.text("#usage-table tbody tr")
    titles = [each.text for each in page.all("#usage-table th")]
    cell = page.text(f"#usage-table tbody td:nth-child({titles.index('p95') + 1})")
    assert cell.endswith("s")


# Keys and teams -------------------------------------------------------------------------------------------------------


def test_a_key_is_made_shown_once_rotated_disabled_and_deleted(page: Browser, scene: Scene) -> None:
    view(page, "keys")
    page.click("#new-key")
    put(page, name="dora", owner="dora@example.com", requests_per_minute="5", dollars_per_month="20")
    choose(page, 'dialog [name="team"]', "research")
    confirm(page)
    first = page.text(".secret")
    page.press(Keys.ESCAPE)
    closed(page)
    page.wait(lambda: "0 of 5" in page.text(card(page, "dora")) or None)
    assert "$0 of $20.00" in page.text(card(page, "dora"))
    assert first not in page.run("return document.documentElement.outerHTML")
    assert scene.post("/v1/chat/completions", chat("demo/any"), first)[0] == 200
    press(page, "Rotate", "dora")
    confirm(page)
    page.wait(lambda: page.text(".secret") != first or None)
    second = page.text(".secret")
    page.press(Keys.ESCAPE)
    assert scene.post("/v1/chat/completions", chat("demo/any"), first)[0] == 401
    press(page, "Disable", "dora")
    page.find('.holder[data-name="dora"][data-status="disabled"]')
    assert scene.post("/v1/chat/completions", chat("demo/any"), second)[0] == 401
    press(page, "Enable", "dora")
    page.find('.holder[data-name="dora"][data-status="active"]')
    assert scene.post("/v1/chat/completions", chat("demo/any"), second)[0] == 200
    press(page, "Edit", "dora")
    put(page, requests_per_minute="7", tags="new, web")
    confirm(page)
    page.wait(lambda: ("of 7" in page.text(card(page, "dora")) and "#new" in page.text(card(page, "dora"))) or None)
    press(page, "Reset budgets", "dora")
    confirm(page)
    closed(page)
    press(page, "Delete", "dora")
    confirm(page)
    page.wait(lambda: not page.all('.holder[data-name="dora"]') or None)
    view(page, "system")
    page.wait(lambda: "keys.delete" in page.text("#audit") or None)
    for action in ("keys.create", "keys.rotate", "keys.disable", "keys.enable", "keys.update", "keys.reset"):
        assert action in page.text("#audit")
    assert second not in page.text("#audit")


def test_wrong_values_of_a_form_are_named_in_it(page: Browser) -> None:
    view(page, "keys")
    page.click("#new-key")
    put(page, name="not a name!")
    confirm(page)
    page.wait(lambda: "name" in page.text("dialog [role=alert]") or None)
    assert page.run("return document.activeElement.name") == "name"
    page.press(Keys.ESCAPE)
    closed(page)


def test_keys_are_filtered(page: Browser) -> None:
    view(page, "keys")
    card(page, "alice")
    page.find("#key-filter").send_keys("#no such tag")
    page.wait(lambda: "No key fits" in page.text("#no-keys") or None)
    page.find("#key-filter").clear()
    page.find("#key-filter").send_keys("carol")
    page.click(f"{card(page, 'carol')} h3 a")  # leads to its requests
    page.wait(lambda: {each.text for each in page.all(".request summary > :nth-child(2)")} == {"carol"} or None)


def test_a_key_of_the_file_is_changed_and_reverted(page: Browser) -> None:
    view(page, "keys")
    press(page, "Edit", "root")
    put(page, owner="me@example.com")
    confirm(page)
    page.wait(lambda: "store over file" in page.text(card(page, "root")) or None)
    press(page, "Revert", "root")
    page.wait(lambda: "me@example.com" not in page.text(card(page, "root")) or None)


def test_a_team_is_made_changed_disabled_and_deleted(page: Browser) -> None:
    view(page, "teams")
    page.click("#new-team")
    put(page, name="night", tokens_per_day="1000")
    confirm(page)
    page.wait(lambda: "0 of 1k" in page.text(card(page, "night")) or None)
    assert "0 keys" in page.text(card(page, "night"))
    assert "1 key ·" in page.text(card(page, "support"))
    press(page, "Edit", "night")
    put(page, tokens_per_day="2000")
    confirm(page)
    page.wait(lambda: "0 of 2k" in page.text(card(page, "night")) or None)
    press(page, "Reset budgets", "night")
    confirm(page)
    closed(page)
    press(page, "Disable", "night")
    page.find('button[aria-label="Enable: night"]')
    press(page, "Delete", "night")
    confirm(page)
    page.wait(lambda: not page.all('.holder[data-name="night"]') or None)
    press(page, "Delete", "research")
    confirm(page)
    page.wait(lambda: "must have no keys" in page.text("dialog [role=alert]") or None)
    page.press(Keys.ESCAPE)


# Models ---------------------------------------------------------------------------------------------------------------


def test_aliases_tiers_and_providers_are_managed(page: Browser, scene: Scene) -> None:
    view(page, "models")
    page.click("#new-alias")
    put(page, name="quick", spec="demo/any, demo/slow")
    confirm(page)
    page.wait(lambda: "demo/slow" in page.text(card(page, "quick")) or None)
    assert scene.post("/v1/chat/completions", chat("quick"))[0] == 200
    page.click("#new-tier")
    put(page, name="weighted", models="demo/any 1\ndemo/slow 4", order="weighted")
    confirm(page)
    page.wait(lambda: "weighted" in page.text(card(page, "weighted")) or None)
    assert scene.get("tiers/weighted")["table"] == {"models": {"demo/any": 1, "demo/slow": 4}, "order": "weighted"}
    page.click("#new-provider")
    put(page, name="box", like="vllm", base_url="http://127.0.0.1:9/v1", api_key="sk-very-secret-value-123")
    confirm(page)
    page.wait(lambda: "http://127.0.0.1:9/v1" in page.text(card(page, "box")) or None)
    press(page, "Edit", "box")
    assert page.find('dialog [name="api_key"]').get_attribute("value") == "(set)"
    put(page, base_url="http://127.0.0.1:10/v1")
    confirm(page)
    page.wait(lambda: "http://127.0.0.1:10/v1" in page.text(card(page, "box")) or None)
    for name in ("quick", "weighted", "box"):
        press(page, "Delete", name)
        confirm(page)
        page.wait(lambda name=name: not page.all(f'.holder[data-name="{name}"]') or None)  # type: ignore[misc]
    press(page, "Delete", "fast")
    confirm(page)
    page.wait(lambda: "removed" in page.text(card(page, "fast")) or None)
    press(page, "Revert", "fast")
    page.wait(lambda: "demo/overloaded" in page.text(card(page, "fast")) or None)


def test_pools_are_managed(page: Browser, scene: Scene) -> None:
    view(page, "models")
    page.click("#new-pool")
    put(page, name="shared", members="demo/any 3\ndemo/slow 1", order="weighted", affinity="prefix")
    confirm(page)
    page.wait(lambda: "affinity prefix" in page.text(card(page, "shared")) or None)
    table = {"targets": {"demo/any": 3, "demo/slow": 1}, "order": "weighted", "affinity": "prefix"}
    assert scene.get("pools/shared")["table"] == table
    assert scene.post("/v1/chat/completions", chat("shared"))[0] == 200
    press(page, "Edit", "shared")
    put(page, members="demo/any", affinity="none")
    confirm(page)
    page.wait(lambda: "demo/slow" not in page.text(card(page, "shared")) or None)
    page.click("#new-pool")
    put(page, name="keys", kind="API keys", members="sk-first-12345678\nsk-other-12345678", others='{"like": "demo"}')
    confirm(page)
    page.wait(lambda: "keys-2/*" in page.text(card(page, "keys")) or None)
    assert scene.get("pools/keys")["table"]["api_keys"] == ["(set)", "(set)"]
    for name in ("shared", "keys"):
        press(page, "Delete", name)
        confirm(page)
        page.wait(lambda name=name: not page.all(f'.holder[data-name="{name}"]') or None)  # type: ignore[misc]


# System ---------------------------------------------------------------------------------------------------------------


def test_the_system_is_described(page: Browser, scene: Scene) -> None:
    view(page, "system")
    page.wait(lambda: "sqlite" in page.text("#system-figures") or None)
    assert scene.get("system")["version"] in page.text("#system-figures")
    assert "bodies are stored for 60 min" in page.text("#system-facts")
    text = scene.gateway.path.read_text(encoding="utf-8")
    try:
        scene.gateway.path.write_text(text + "[gatway]\n", encoding="utf-8")
        page.wait(lambda: "gatway" in page.text("#problems") or None)
    finally:
        scene.gateway.path.write_text(text, encoding="utf-8")
    page.wait(lambda: "gatway" not in page.text("#problems") or None)


# Playground -----------------------------------------------------------------------------------------------------------


def test_a_chat_streams_and_can_be_stopped(page: Browser, scene: Scene) -> None:
    with FaultyServer(StallAfter(SHOWN, WORDS), repeat=True) as upstream:  # it is also asked for its models
        table = {"wire": "openai_chat", "base_url": upstream.base_url(), "needs_key": False}
        view(page, "models")
        page.run(
            "fetch('admin/api/providers/up', {method: 'PUT', headers: arguments[0], body: arguments[1]})",
            {"authorization": f"Bearer {scene.admin}", "content-type": "application/json"},
            json.dumps({"table": table}),
        )
        card(page, "up")
        view(page, "playground")
        ask(page, "up/m", "Count!")
        page.wait(lambda: "one" in page.text(".message.wait") or None)
        page.click("#stop")
        page.wait(lambda: not page.all(".message.wait") or None)
        assert upstream.client_disconnected.acquire(timeout=PATIENCE)
        view(page, "requests?outcome=client_disconnected&since=1h&target=" + quote("up/m"))
        page.find(".request[data-outcome=client_disconnected]")


def test_a_chat_goes_on_over_several_turns(page: Browser) -> None:
    view(page, "playground")
    for number, prompt in enumerate(("Is it so?", "And now?"), 1):
        ask(page, "demo/any", prompt)
        page.wait(lambda n=number: len(page.all(".message.assistant:not(.wait)")) == n or None)  # type: ignore[misc]
        page.wait(lambda: "answered" in page.text("#receipt") or None)
        assert prompt in page.all(".message.assistant")[-1].text
    assert "demo/any" in page.text("#receipt")
    assert page.text("#wire").count("Is it so?") == 2  # asked, and said back
    assert int(page.text("#events-count")) > 3
    page.click("#events-block summary")
    assert "data: [DONE]" in page.text("#events")


def test_a_call_of_a_tool_shows_and_is_answered(page: Browser) -> None:
    view(page, "playground")
    page.click("#settings summary")
    page.click("#with-tool")
    choose(page, "#choice", "required")
    ask(page, "demo/any", "When does the tide turn in Brest?")
    assert "Brest" in page.text(".message.tool pre")
    assert page.focused() == "Result of tide"
    page.press(Keys.ENTER)
    page.wait(lambda: "half past four" in page.text(".message.assistant:not(.wait)") or None)


def test_images_are_shown_and_seen(page: Browser, tmp_path: Path) -> None:
    for name in ("red", "blue"):
        (tmp_path / f"{name}.png").write_bytes(picture(32, 24))
    view(page, "playground")
    page.find("#image").send_keys(f"{tmp_path / 'red.png'}\n{tmp_path / 'blue.png'}")
    page.wait(lambda: page.text("#image-name") == "red.png, blue.png" or None)
    ask(page, "demo/any", "What is this?")
    assert page.run("return document.querySelector('.message.user img').naturalWidth") == 32
    page.wait(lambda: "32" in page.text(".message.assistant:not(.wait)") or None)
    assert page.text("#wire pre").count("image_url") >= 2


def test_two_models_answer_side_by_side(page: Browser) -> None:
    view(page, "playground")
    page.click("#compare")
    page.run("document.getElementById('model-b').value = 'fast'")
    ask(page, "demo/any", "Which is faster?")
    page.wait(lambda: "demo/any answered" in page.text("#receipt") or None)
    page.wait(lambda: "demo/any answered" in page.text("#receipt-b") or None)
    boxes = [
        page.run("return document.querySelector(arguments[0]).getBoundingClientRect().x", s) for s in ("#log", "#log-b")
    ]
    assert boxes[1] > boxes[0] + 200
    assert "Which is faster?" in page.text("#log-b .assistant")
    assert [page.text(f"{log} .by") for log in ("#log", "#log-b")] == ["demo/any", "fast"]


MARKDOWN = """# Tides
Water is **high** and *low*, `h = 3`, see [here](https://example.com/t) and [bad](javascript:alert(1)).

- one
- two
  - three

1. first

| a | b |
|---|---|
| 1 | <b>2</b> |

```py
x = 1 < 2
```
> said ![pic](data:image/gif;base64,R0lGODlhAQABAAAAACw=) ![far](https://example.com/x.png)"""


def test_markdown_becomes_elements_and_never_markup(page: Browser) -> None:
    script = "import('/dashboard/markdown.js').then(({markdown}) => { const d = document.createElement('div'); d.append(...markdown(arguments_[0])); arguments_[1](d.outerHTML) })"
    html = page.driver.execute_async_script("const arguments_ = arguments;" + script, MARKDOWN)
    for piece in (
        "<h3>Tides</h3>",
        "<strong>high</strong>",
        "<em>low</em>",
        "<code>h = 3</code>",
        'href="https://example.com/t"',
        "<li>two<ul><li>three</li></ul></li>",
        "<ol start=",
        "<td>&lt;b&gt;2&lt;/b&gt;</td>",
        "x = 1 &lt; 2",
        "<blockquote><p>said ",
        "<img src=",
    ):
        assert piece in html
    assert 'href="javascript' not in html
    assert html.count("<img") == 1


@pytest.mark.parametrize(
    "form", ["curl · OpenAI", "curl · Responses", "curl · Anthropic", "curl · Gemini", "curl · Ollama"]
)
def test_a_chat_copied_as_curl_is_answered_by_the_gateway(
    page: Browser, scene: Scene, form: str, tmp_path: Path
) -> None:
    (tmp_path / "red.png").write_bytes(picture(32, 24))
    view(page, "playground")
    page.click("#settings summary")
    page.find("#system-prompt").send_keys('Be brief, don\'t "lie".')
    page.click("#with-tool")
    choose(page, "#choice", "none")
    page.find("#image").send_keys(str(tmp_path / "red.png"))
    page.wait(lambda: page.text("#image-name") == "red.png" or None)
    ask(page, "demo/any", "It's me")
    page.wait(lambda: "answered" in page.text("#receipt") or None)
    page.click("#snippet-block summary")
    choose(page, "#snippet-form", form)
    page.wait(lambda: "curl" in page.text("#snippet") or None)
    code = str(page.run("return document.getElementById('snippet').textContent"))
    path = re.search(r"curl \S+?//[^/]+(/\S+)", code)
    body = re.search(r"-d '(.*)'$", code, re.DOTALL)
    assert path is not None
    assert body is not None
    sent = json.loads(body[1].replace("'\\''", "'"))
    headers = dict(each.replace("$DRAGOMAN_KEY", scene.admin).split(": ", 1) for each in re.findall(r'-H "(.*)"', code))
    status, _, answer = scene.gateway.post(path[1], sent, **headers)
    assert (status, b"32" in answer) == (200, True), answer


def test_a_chat_copied_as_python_compiles(page: Browser) -> None:
    view(page, "playground")
    page.click("#snippet-block summary")
    for form in ("Python · openai", "Python · anthropic"):
        choose(page, "#snippet-form", form)
        page.wait(lambda form=form: form.split()[-1] in page.text("#snippet") or None)  # type: ignore[misc]
        compile(page.text("#snippet"), form, "exec")


def test_the_wire_of_each_attempt_shows_how_it_went(page: Browser, scene: Scene) -> None:
    scene.post("/admin/api/targets/enable", {"target": "demo/overloaded"})
    view(page, "playground")
    ask(page, "demo/overloaded,demo/any", "Hello!")
    page.find('.wire[data-target="demo/overloaded"] .outcome.failed')
    page.find('.wire[data-target="demo/any"] .outcome.served')


def test_a_refusal_is_shown_as_a_message(page: Browser) -> None:
    view(page, "playground")
    ask(page, "nobody/knows", "Hello!")
    assert "nobody/knows" in page.text(".message.error")


# Who may look ---------------------------------------------------------------------------------------------------------


def titles(page: Browser) -> list[str]:
    return [link.text for link in page.all("nav a")]


def test_a_page_without_a_key_asks_for_one_and_sends_no_request_that_is_refused(browser: Browser, scene: Scene) -> None:
    browser.open(scene.gateway.url + "/")
    browser.run("sessionStorage.clear()")
    browser.complaints()
    browser.open(scene.gateway.url + "/")
    browser.wait(lambda: browser.find("#signin").is_displayed() or None)
    assert browser.focused() == "key"
    assert browser.complaints() == []


def test_a_key_is_needed_and_stays_in_the_tab(page: Browser, scene: Scene) -> None:
    page.click("#signout")
    assert page.run("return sessionStorage.length") == 0
    page.wait(lambda: page.find("#signin").is_displayed() or None)
    assert page.focused() == "key"
    page.press("sk-dm-wrong", Keys.ENTER)
    page.wait(lambda: "unknown API key" in page.text("#signin-problem") or None)
    page.press(scene.admin, Keys.ENTER)
    page.find(".target")
    assert scene.admin not in str(page.run("return document.documentElement.outerHTML + location + document.cookie"))
    assert page.run("return localStorage.length") == 0
    page.driver.refresh()
    page.find(".target")


def test_each_role_sees_what_it_may(page: Browser, scene: Scene) -> None:
    assert titles(page) == [name.capitalize() for name in VIEWS]
    sign_in(page, scene, scene.keys["carol"])  # a viewer
    view(page, "keys")
    card(page, "alice")
    assert not page.find("#new-key").is_displayed()
    assert not page.all(".holder button")
    sign_in(page, scene, scene.keys["bob"])  # an owner
    assert titles(page) == ["Requests", "Usage", "Keys", "Playground"]
    view(page, "keys")
    card(page, "bob")
    assert [each.get_attribute("data-name") for each in page.all(".holder")] == ["bob"]
    assert [each.text for each in page.all(".holder button")] == ["Rotate", "Disable"]
    sign_in(page, scene, scene.keys["alice"])
    assert titles(page) == ["Requests", "Usage", "Playground"]
    view(page, "requests?since=30d")
    page.find(".request[data-id]")


# How it is made -------------------------------------------------------------------------------------------------------


def test_the_page_requests_nothing_from_other_hosts_and_nothing_fails(page: Browser, scene: Scene) -> None:
    for name in VIEWS:
        view(page, name)
        page.settle()
    ask(page, "demo/any", "Hello!")
    page.wait(lambda: "answered" in page.text("#receipt") or None)
    places: list[str] = page.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert {place for place in places if not place.startswith((scene.gateway.url + "/", "data:"))} == set()
    assert page.complaints() == []


def test_the_policy_stops_what_is_not_ours(page: Browser) -> None:
    script = """
    const [url, done] = arguments, blocked = [];
    document.addEventListener("securitypolicyviolation", (event) => {
      blocked.push(event.effectiveDirective);
      if (blocked.length === 3) done(blocked.sort());
    });
    fetch(url).catch(() => 0);
    document.head.append(Object.assign(document.createElement("script"), {textContent: "window.broken = 1"}));
    document.body.append(Object.assign(document.createElement("img"), {src: url}));
    """
    blocked = page.driver.execute_async_script(script, f"http://127.0.0.1:{free_port()}/")
    assert blocked == ["connect-src", "img-src", "script-src-elem"]
    assert page.run("return window.broken") is None
    page.complaints()


@pytest.mark.parametrize("width", WIDTHS)
def test_every_view_fits_and_can_be_read_in_the_light_and_in_the_dark(page: Browser, width: int) -> None:
    for scheme in ("light", "dark"):
        page.scheme(scheme)
        page.size(width)
        for name in VIEWS:
            view(page, name)
            page.settle()
            assert page.run("return document.documentElement.scrollWidth") <= width, name
            assert page.run(OVERFLOW) == [], name
            assert page.run(CONTRAST) == [], name
            assert page.run(NAMELESS) == [], name
        paper = page.run("return getComputedStyle(document.documentElement).backgroundColor")
        assert (sum(map(int, paper[4:-1].split(","))) < 150) == (scheme == "dark")


def test_two_models_fit_a_phone(page: Browser) -> None:
    page.size(390)
    view(page, "playground")
    page.settle()
    if not page.run("return document.getElementById('compare').checked"):
        page.click("#compare")
    for field in ("model", "model-b"):
        assert page.run(f"return document.getElementById('{field}').offsetWidth") > 300
    assert page.run("return document.documentElement.scrollWidth") <= 390
    assert page.run(OVERFLOW) == []
    page.click("#compare")


def test_dialogs_fit_a_phone(page: Browser) -> None:
    page.size(390)
    view(page, "keys")
    page.click("#new-key")
    assert page.run("return document.querySelector('dialog').scrollWidth") <= 390
    assert page.run(CONTRAST) == []
    assert page.run(NAMELESS) == []
    page.press(Keys.ESCAPE)
    closed(page)


def test_all_of_it_works_by_keyboard(page: Browser) -> None:
    page.find(".target")
    page.press(Keys.TAB)
    assert page.focused() == "Skip to the content"
    page.tab_to("Disable: demo/any")
    assert page.run("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.press(Keys.ENTER)
    page.find('.target[data-target="demo/any"][data-state="disabled"]')
    assert page.focused() == "Enable: demo/any"
    page.press(Keys.SPACE)
    page.find('.target[data-target="demo/any"][data-state="healthy"]')
    page.open(page.driver.current_url)
    page.find(".target")
    page.tab_to("Playground")
    page.press(Keys.ENTER)
    page.tab_to("prompt")
    page.press("By keyboard alone", Keys.ENTER)
    page.wait(lambda: "By keyboard alone" in page.text(".message.assistant:not(.wait)") or None)


def test_the_first_key_of_a_gateway_makes_the_page_ask_for_it(browser: Browser, tmp_path: Path) -> None:
    with Gateway(tmp_path, f'[gateway]\nstore = "sqlite:{tmp_path / "store.db"}"\n') as gateway:
        browser.open(gateway.url + "/#/keys")
        browser.wait(lambda: "has no keys" in browser.text("#no-keys") or None)
        browser.click("#new-key")
        assert browser.find('dialog [name="role"]').get_attribute("value") == "admin"
        put(browser, name="ops")
        confirm(browser)
        secret = browser.text(".secret")
        browser.press(Keys.ESCAPE)
        browser.wait(lambda: browser.find("#signin").is_displayed() or None)
        browser.find("#key").send_keys(secret, Keys.ENTER)
        card(browser, "ops")
        assert browser.driver.find_elements(By.CSS_SELECTOR, ".badge.admin")
