"""Hypothesis profiles: `steady` (the default) tries the same examples on every run, `quick` fewer, `explore` new ones."""

import gc
import os
import signal

from hypothesis import HealthCheck, settings

settings.register_profile(
    "steady",
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("quick", settings.get_profile("steady"), max_examples=20)
settings.register_profile("explore", settings.get_profile("steady"), derandomize=False, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

# A shell starts what runs in its background deaf to Ctrl-C, and so would be the processes that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Modules and tests live to the end: the garbage collector need not visit them again and again."""
    gc.collect()
    gc.freeze()
