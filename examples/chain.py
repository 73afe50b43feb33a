"""A chain of targets with failover, and the list of attempts.

It runs on the `demo` provider: no key, no network.
"""

import dragoman


def main() -> None:
    registry = dragoman.Registry()
    registry.alias("last-resort", "demo/empty, demo/any")

    model = registry.model("demo/overloaded, demo/ratelimited, last-resort", retries=0)
    response = model.generate("Is anybody there?")
    print(response.text)
    for attempt in response.attempts:
        print(f"  {attempt.target}: {attempt.outcome}{f' ({attempt.error})' if attempt.error else ''}")

    try:
        registry.model("demo/overloaded, demo/empty", retries=0).generate("Is anybody there?")
    except dragoman.ChainExhausted as error:
        print(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
