"""Hypothesis profiles: `steady` (the default) tries the same examples on every run, `quick` fewer, `explore` many new ones."""

import gc
import os
import signal
import ssl
import sys
from collections.abc import Generator, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import certifi
import pytest
from hypothesis import HealthCheck, settings

from tests.support.paths import ROOT

if TYPE_CHECKING:
    from coverage import Coverage

settings.register_profile(
    "steady",
    max_examples=30,
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("quick", settings.get_profile("steady"), max_examples=10)
settings.register_profile("explore", settings.get_profile("steady"), derandomize=False, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

# A shell starts what runs in its background deaf to Ctrl-C, and so would be the processes that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


class MeasuredCalls:
    """Measures coverage while a test runs, and not while pytest prepares it: Python is slower as long as it is measured."""

    def __init__(self, coverage: "Coverage") -> None:
        self.coverage = coverage

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        if item.get_closest_marker("no_cover") is None:
            self.coverage.start()
        try:
            return (yield)
        finally:
            self.coverage.stop()  # pytest-cov starts it after a test with the mark, too


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Import the measured modules, whose first lines count, and measure nothing else before the first test."""
    # pytest-cov has imported it if coverage is measured; some environments of the tests do not have it.
    package = sys.modules.get("coverage")
    if package is None or (coverage := package.Coverage.current()) is None:
        return
    for pattern in coverage.get_option("report:include"):
        for file in ROOT.glob(pattern.replace("/*", "/**/*.py")):
            import_module(".".join(file.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__"))
    coverage.stop()
    session.config.pluginmanager.register(MeasuredCalls(coverage))


def pytest_collection_finish() -> None:
    """Make the garbage collector leave out what lives to the end, modules and tests, and run less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@pytest.fixture(scope="session", autouse=True)
def one_certificate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Each client of httpx reads all public certificates, which takes 20 ms; on this machine one of them is enough."""
    first, end, _ = Path(certifi.where()).read_text(encoding="utf-8").partition("-----END CERTIFICATE-----")
    file = tmp_path_factory.mktemp("certificates") / "one.pem"
    file.write_text(first + end, encoding="utf-8")

    def trust_one(**_: bool) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(file))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certifi, "where", lambda: str(file))
        if "httpx2" in sys.modules:  # the client of the official packages reads those of the system instead
            patch.setattr("httpcore2.default_ssl_context", trust_one)
        for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
            patch.delenv(name, raising=False)
        yield
