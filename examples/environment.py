"""Providers that are defined by the environment: LLM_<NAME>=scheme://[token@]host. On `demo`: no key, no network."""

import dragoman

ENVIRONMENT = {
    "LLM_BOX": "ollama+http://box:11434",
    "LLM_TOWN": "openai://secret-token@llm.example.com",
    "LLM_TOY": "demo://toy",
    "GROQ_API_KEY": "",
}


def main() -> None:
    registry = dragoman.Registry(env=ENVIRONMENT)  # without env= it is the process's own
    for told in registry.model("box/qwen3, town/gpt-5, groq/llama, toy/any").explain("hello"):
        place = told.request.url if told.request is not None else "nowhere"
        print(f"{told.target}: {place}, {'ready' if told.ready else told.reason}")
    print(registry.model("toy/any").generate("hello").text)


if __name__ == "__main__":
    main()
