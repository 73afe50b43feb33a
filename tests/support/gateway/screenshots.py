"""Makes pictures of every view of the dashboard with demo traffic: python -m tests.support.gateway.screenshots FOLDER"""

import json
import sys
import tempfile
from pathlib import Path

from PIL import Image

from dragoman.gateway.auth.api_keys import new_key
from tests.support.gateway.browser import Browser
from tests.support.gateway.dashboard import OPERATOR_CONFIG, ask, fill, view
from tests.support.gateway.live import Gateway

WIDTHS = (1400, 1024, 390)
SCHEMES = ("light", "dark")
COLOURS = 96
VIEWS = ("overview", "requests", "usage?metric=tokens&since=7d", "keys", "teams", "models", "system", "playground")


def main(folder: Path, names: list[str]) -> None:
    """Take the pictures of some views, or of all."""
    folder.mkdir(parents=True, exist_ok=True)
    admin, hash = new_key()
    with tempfile.TemporaryDirectory() as place:
        config = OPERATOR_CONFIG.format(hash=hash, store=Path(place) / "store.db")
        with Gateway(Path(place), config) as gateway:
            fill(gateway, admin, Path(place) / "store.db")
            browser = Browser()
            try:
                take(browser, gateway, admin, folder, names)
            finally:
                browser.stop()


def shrink(path: Path) -> None:
    """Store a picture with few colours: a page has no photos, and the file is a third as large."""
    with Image.open(path) as image:
        image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


def compare(browser: Browser) -> None:
    """A chat with two models."""
    browser.settle()
    browser.find("#compare").click()
    browser.run("document.getElementById('model-b').value = 'fast'")
    ask(browser, "demo/any", "Say **why** `2 + 2` is *four*: [source](https://example.com)")
    for receipt in ("#receipt", "#receipt-b"):
        browser.wait(lambda receipt=receipt: "answered" in browser.text(receipt) or None)  # type: ignore[misc]
    browser.find("#snippet-block summary").click()


def take(browser: Browser, gateway: Gateway, admin: str, folder: Path, names: list[str]) -> None:
    """All pictures of one browser."""
    browser.open(gateway.url + "/")
    browser.run("sessionStorage.setItem('dragoman.key', arguments[0])", admin)
    for width in WIDTHS:
        for scheme in SCHEMES:
            browser.size(width)
            browser.scheme(scheme)
            for name in names or VIEWS:
                browser.open(f"{gateway.url}/#/{name}")
                view(browser, name)
                if name == "playground":
                    compare(browser)
                height = browser.run("return document.documentElement.scrollHeight")
                browser.size(width, min(max(900, height), 2600))
                browser.settle()
                path = folder / f"{name.partition('?')[0]}-{width}-{scheme}.png"
                browser.save(path)
                shrink(path)
                browser.size(width)
    problems = browser.complaints()
    sys.stdout.write(json.dumps(problems, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
