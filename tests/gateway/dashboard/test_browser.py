"""The dashboard in a real browser, before a real gateway."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from dragoman import wires
from dragoman.gateway.auth.api_keys import new_key
from dragoman.testing import FaultyServer, StallAfter
from dragoman.testing.script import render
from dragoman.types import Request
from tests.support.gateway.browser import Browser
from tests.support.gateway.live import PATIENCE, Gateway, chat, free_port, record
from tests.support.images import picture

VIEWS = ("health", "requests", "usage", "playground")
CONFIG = """
[gateway]
providers = ["demo"]
[tiers.simple]
models = ["demo/any", "demo/slow"]
[aliases]
fast = "demo/overloaded, demo/any"
"""
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


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    browser = Browser()
    try:
        yield browser
    finally:
        browser.stop()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with Gateway(tmp_path_factory.mktemp("gateway"), CONFIG) as gateway:
        yield gateway


@pytest.fixture
def page(browser: Browser, gateway: Gateway) -> Browser:
    browser.size(1280)
    browser.scheme("light")
    browser.open(gateway.url + "/")
    browser.find(".target")
    browser.complaints()
    return browser


def view(page: Browser, name: str) -> None:
    page.run("location.hash = '/' + arguments[0]", name)
    page.wait(lambda: page.find(f"#{name}").is_displayed() or None)


def ask(page: Browser, model: str, prompt: str) -> None:
    page.run("document.getElementById('model').value = arguments[0]", model)
    page.find("#prompt").send_keys(prompt, Keys.ENTER)


# Health ---------------------------------------------------------------------------------------------------------------


def test_a_target_turns_red_on_cooldown_and_green_again(page: Browser, gateway: Gateway) -> None:
    card = '.target[data-target="demo/overloaded"]'

    def colour() -> str:
        return str(page.run(f"return getComputedStyle(document.querySelector('{card} .dot')).backgroundColor"))

    gateway.post("/admin/api/targets/enable", {"target": "demo/overloaded"})
    page.find(f'{card}[data-state="healthy"]')
    green = colour()
    assert gateway.post("/v1/chat/completions", chat("demo/overloaded"))[0] == 503
    page.find(f'{card}[data-state="cooldown"]')
    red = colour()
    assert "cooldown" in page.text(f"{card} .state")
    assert page.run("return document.getElementById('news').textContent") == "demo/overloaded is now: cooldown"
    page.find(f"{card} button").click()
    page.find(f'{card}[data-state="healthy"]')
    assert colour() == green
    assert red != green


def test_plots_draw_every_request(page: Browser, gateway: Gateway) -> None:
    for model in ("demo/any", "demo/any", "demo/cut"):
        gateway.post("/v1/chat/completions", chat(model, stream=True))
    page.wait(lambda: len(page.all("#latency circle")) >= 2 or None)
    page.find("#latency .cross")
    page.find("#tokens .bar-output")
    assert "median" in str(page.find("#latency").get_attribute("aria-label"))
    heights = [float(bar.get_attribute("height") or 0) for bar in page.all("#tokens .bar-output")]
    assert max(heights) > 10
    view(page, "usage")
    page.find("#by-day .bar-input")
    assert "without a key" in page.text("#by-key")


def test_a_request_shows_its_attempts(page: Browser, gateway: Gateway) -> None:
    gateway.post("/admin/api/targets/enable", {"target": "demo/overloaded"})
    gateway.post("/v1/chat/completions", chat("fast"))
    view(page, "requests")
    page.find("#filter").send_keys("fast")
    row = page.find(".request[data-outcome=served]")
    row.find_element("css selector", "summary").click()
    attempts = [attempt.text for attempt in page.all(".request[open] .attempt")]
    assert any("demo/overloaded" in attempt and "Overloaded" in attempt for attempt in attempts)
    assert "served" in attempts[-1]


# Playground -----------------------------------------------------------------------------------------------------------


def test_a_chat_streams_and_can_be_stopped(browser: Browser, tmp_path: Path) -> None:
    with (
        FaultyServer(StallAfter(SHOWN, WORDS)) as upstream,
        Gateway(tmp_path, record("up", upstream.base_url())) as gateway,
    ):
        browser.open(gateway.url + "/#/playground")
        browser.find("#status .dot")
        ask(browser, "up/m", "Count!")
        browser.wait(lambda: WORDS in browser.text(".message.wait") or None)
        browser.find("#stop").click()
        browser.wait(lambda: not browser.all(".message.wait") or None)
        assert upstream.client_disconnected.acquire(timeout=PATIENCE)
        view(browser, "requests")
        browser.find(".request[data-outcome=client_disconnected]")


def test_a_chat_goes_on_over_several_turns(page: Browser) -> None:
    view(page, "playground")
    page.find("#new-chat").click()
    for number, prompt in enumerate(("Is it so?", "And now?"), 1):
        ask(page, "demo/any", prompt)
        page.wait(lambda n=number: len(page.all(".message.assistant:not(.wait)")) == n or None)  # type: ignore[misc]
        page.wait(lambda: "answered" in page.text("#receipt") or None)
        assert prompt in page.all(".message.assistant")[-1].text
    assert "demo/any" in page.text("#receipt")
    assert page.text("#wire").count("Is it so?") == 2  # asked, and said back
    assert int(page.text("#events-count")) > 3
    page.find("#events-block summary").click()
    assert "data: [DONE]" in page.text("#events")


def test_a_call_of_a_tool_shows_and_is_answered(page: Browser) -> None:
    view(page, "playground")
    page.find("#settings summary").click()
    page.find("#with-tool").click()
    page.find("#choice").send_keys("required")
    ask(page, "demo/any", "When does the tide turn in Brest?")
    assert "Brest" in page.text(".message.tool pre")
    assert page.focused() == "Result of tide"
    page.press(Keys.ENTER)
    page.wait(lambda: "half past four" in page.text(".message.assistant:not(.wait)") or None)


def test_an_image_is_shown_and_seen(page: Browser, tmp_path: Path) -> None:
    (tmp_path / "red.png").write_bytes(picture(32, 24))
    view(page, "playground")
    page.find("#image").send_keys(str(tmp_path / "red.png"))
    page.wait(lambda: page.text("#image-name") == "red.png" or None)
    ask(page, "demo/any", "What is this?")
    assert page.run("return document.querySelector('.message.user img').naturalWidth") == 32
    page.wait(lambda: "32" in page.text(".message.assistant:not(.wait)") or None)
    assert "image_url" in page.text("#wire pre")


def test_the_wire_of_each_attempt_shows_how_it_went(page: Browser, gateway: Gateway) -> None:
    gateway.post("/admin/api/targets/enable", {"target": "demo/overloaded"})
    view(page, "playground")
    ask(page, "demo/overloaded,demo/any", "Hello!")
    page.find('.wire[data-target="demo/overloaded"] .outcome.failed')
    page.find('.wire[data-target="demo/any"] .outcome.served')


def test_a_refusal_is_shown_as_a_message(page: Browser) -> None:
    view(page, "playground")
    ask(page, "nobody/knows", "Hello!")
    assert "nobody/knows" in page.text(".message.error")


# Who may look ---------------------------------------------------------------------------------------------------------


def test_an_admin_key_is_needed_and_stays_in_the_tab(browser: Browser, tmp_path: Path) -> None:
    (admin, admin_hash), (team, team_hash) = new_key(), new_key()
    config = f'[keys.root]\nhash = "{admin_hash}"\nadmin = true\n[keys.team]\nhash = "{team_hash}"\n'
    with Gateway(tmp_path, config) as gateway:
        browser.open(gateway.url + "/")
        browser.wait(lambda: browser.find("#signin").is_displayed() or None)
        assert not browser.all(".target")
        assert browser.focused() == "key"
        browser.press("sk-dm-wrong", Keys.ENTER)
        browser.wait(lambda: "unknown API key" in browser.text("#signin-problem") or None)
        browser.press(team, Keys.ENTER)
        browser.wait(lambda: "operator" in browser.text("#signin-problem") or None)
        browser.press(admin, Keys.ENTER)
        browser.find(".target")
        assert admin not in str(browser.run("return document.documentElement.outerHTML + location + document.cookie"))
        assert browser.run("return localStorage.length") == 0
        browser.driver.refresh()
        browser.find(".target")
        browser.find("#signout").click()
        assert browser.run("return sessionStorage.length") == 0
        assert browser.find("#key").is_displayed()


# How it is made -------------------------------------------------------------------------------------------------------


def test_nothing_is_asked_for_outside(page: Browser, gateway: Gateway) -> None:
    for name in VIEWS:
        view(page, name)
    ask(page, "demo/any", "Hello!")
    page.wait(lambda: "answered" in page.text("#receipt") or None)
    places: list[str] = page.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert {place for place in places if not place.startswith((gateway.url + "/", "data:"))} == set()
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


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_fits_a_phone(page: Browser, gateway: Gateway, name: str, tmp_path: Path) -> None:
    gateway.post("/v1/chat/completions", chat("simple," + "fast," * 20 + "demo/any"))
    page.size(380)
    view(page, name)
    page.save(tmp_path / f"{name}-380.png")
    assert page.run("return document.documentElement.scrollWidth") <= 380


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", VIEWS)
def test_a_view_can_be_read_in_the_light_and_in_the_dark(
    page: Browser, gateway: Gateway, name: str, scheme: str, tmp_path: Path
) -> None:
    gateway.post("/v1/chat/completions", chat("demo/cut", stream=True))
    page.scheme(scheme)
    view(page, name)
    page.save(tmp_path / f"{name}-{scheme}.png")
    assert page.run(CONTRAST) == []
    paper = page.run("return getComputedStyle(document.documentElement).backgroundColor")
    assert (sum(map(int, paper[4:-1].split(","))) < 150) == (scheme == "dark")


@pytest.mark.parametrize("name", VIEWS)
def test_all_that_can_be_used_has_a_name(page: Browser, name: str) -> None:
    view(page, name)
    assert page.run(NAMELESS) == []


def test_all_of_it_works_by_keyboard(page: Browser) -> None:
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
