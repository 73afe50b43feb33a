"""A failover drill: break a chain in every way on purpose, and print who answered. No key, no network."""

import dragoman
from dragoman import AuthFailed, Overloaded, RateLimited, Timeouts
from dragoman.testing import CloseAfter, CloseAtOnce, FaultyServer, InvalidBody, ScriptLine, StallAfter

FAULTS: dict[str, ScriptLine] = {
    "overloaded": Overloaded("busy"),
    "rate limit": RateLimited("slow down", retry_after=30),
    "wrong key": AuthFailed("no such key"),
    "refused connection": CloseAtOnce(),
    "cut in mid-stream": CloseAfter(400, "The tide is high at noon, and low in the evening."),
    "silence": StallAfter(0),
    "an HTML page": InvalidBody(),
}


def drill(fault: ScriptLine) -> dragoman.Response:
    with FaultyServer(fault, repeat=True) as server:
        registry = dragoman.Registry(env={})
        registry.add_provider(name="primary", like="vllm", base_url=server.base_url())
        chain = registry.model(
            "primary/model, demo/any", on_interrupt="restart", retries=0, timeout=Timeouts(first_event=1)
        )
        with chain.stream("When is the tide high?") as stream:
            list(stream)
        registry.close()
    assert stream.response is not None
    return stream.response


def main() -> None:
    for name, fault in FAULTS.items():
        response = drill(fault)
        failed = next(attempt for attempt in response.attempts if attempt.outcome == "failed")
        print(f"{name:<20} {(failed.error or '').partition(':')[0]:<14} answered by {response.target}")


if __name__ == "__main__":
    main()
