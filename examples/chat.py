"""A conversation is a list of messages. You can save it as JSON and load it again.

It runs on the `demo` provider: no key, no network.
"""

import dragoman
from dragoman import user


def main() -> None:
    model = dragoman.model("demo/any", system="You are a harbour master. Be brief.")
    messages = [user("How many ships are in the harbour?")]
    response = model.generate(messages)
    print(response.text)

    messages += [response.message, user("And how many of them have three masts?")]
    response = model.generate(messages)
    print(response.text)
    print(f"[{response.target}, {response.finish.reason}, {response.usage.input} in, {response.usage.output} out]")

    saved = dragoman.dump([*messages, response.message])
    print(f"{len(dragoman.load(saved))} messages, {len(saved)} bytes of JSON")


if __name__ == "__main__":
    main()
