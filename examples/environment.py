"""Providers from environment variables: LLM_<NAME>=scheme://[token@]host. It sends no request to the network."""

import dragoman

ENVIRONMENT = {
    "LLM_BOX": "ollama+http://box:11434",
    "LLM_TOWN": "openai://secret-token@llm.example.com",
    "LLM_TOY": "demo://toy",
    "GROQ_API_KEY": "",
}


def main() -> None:
    registry = dragoman.Registry(env=ENVIRONMENT)  # without env= the registry reads os.environ
    for explanation in registry.model("box/qwen3, town/gpt-5, groq/llama, toy/any").explain("hello"):
        url = explanation.request.url if explanation.request is not None else "no URL"
        print(f"{explanation.target}: {url}, {'ready' if explanation.ready else explanation.reason}")
    print(registry.model("toy/any").generate("hello").text)


if __name__ == "__main__":
    main()
