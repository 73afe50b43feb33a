"""What the reference says and the code does not: cures of errors, the demo, and whose models a provider has."""

CURES = {
    "AuthFailed": "Check the key variable (`dragoman providers`), and whether the key may use the model.",
    "BadRequest": "Read the message of the provider; `model.explain(…)` shows the bytes that it got.",
    "Blocked": "Change the prompt, or add a target of another provider; a retry gives the same result.",
    "BudgetExceeded": "Raise `budget=`, or continue later from `error.result.messages`.",
    "ChainExhausted": "Read `error.attempts`: each target has its own reason. Add a target of another provider.",
    "ConnectFailed": "Check the base URL, DNS, the proxy and the firewall; is a local server running?",
    "ConnectTimeout": "Check the network, or raise `Timeouts(connect=…)`.",
    "ContextTooLong": "Shorten the conversation (`compact`), or choose a model with a larger context.",
    "DragomanError": "The class of all errors; catch it around a call to handle every failure.",
    "EmptyResponse": "Raise `max_tokens` if the model thinks a lot; otherwise add another target.",
    "Interrupted": 'Use `error.partial`, or set `on_interrupt="restart"` in a chain.',
    "InvalidRequest": "Correct the parameter that the message names.",
    "InvalidTool": "Give each tool a unique name, annotations and a schema that is an object.",
    "Malformed": "Check that the base URL belongs to this protocol; a proxy may have sent a page of HTML.",
    "MalformedToolCall": "It is retried. If it stays, simplify the schema of the tool or use a stronger model.",
    "MaxSteps": "Raise `max_steps=`, or continue from `error.result.messages`.",
    "ModelNotFound": "List the models with `dragoman models PROVIDER`, and check the spelling.",
    "OutputError": "Read `error.reasons`; raise `max_tokens` or `max_repairs`, or simplify the type.",
    "Overloaded": "It is retried. Add a target of another provider.",
    "ProviderError": "Read `error.message`, which is the text of the provider.",
    "RateLimited": "Wait for `error.retry_after` seconds, send less at once, or add a target.",
    "ReadTimeout": "Raise `Timeouts(first_event=…, idle=…)`, or add a target.",
    "RequestError": "Correct what the message names.",
    "RequestTooLarge": "Send fewer or smaller images and documents, or upload them as files.",
    "Reset": "It is retried. If it stays, look for a proxy or a load balancer that closes connections.",
    "ServerFault": "It is retried. Look at the status page of the provider, and add a target of another one.",
    "SetupError": "Correct the spec, option, variable or config that the message names; `dragoman doctor` helps.",
    "StoreDown": "Start the store of the gateway, or correct `store` in its config.",
    "TimedOut": "The message names the limit that has passed; raise it with `timeout=`.",
    "TooLarge": "The answer exceeds a limit of dragoman: ask for less.",
    "ToolLoop": "The model repeats calls, or they only fail: improve the tool's description or its error message, or "
    "change `repeat_limit=` or `tool_error_limit=`.",
    "TransportError": "There was no response. Check the network and the base URL.",
    "Truncated": "The answer has no end. It is retried; if it stays, the server or a proxy cuts answers off.",
    "Unsupported": "Choose a target that supports it ([table](../docs/providers.md)), or add one to the chain.",
    "WireError": "Check that the base URL belongs to this protocol.",
}
"""What to do about each error. An error without an entry fails the build."""

DEMO_MODELS = {
    "any": "answers, calls tools, fills schemas, sees images, thinks if the request asks for it",
    "overloaded": "always fails with status 503",
    "slow": "sends its first byte after 30 seconds",
    "empty": "gives an empty answer",
    "cut": "breaks off in the middle of its answer",
    "ratelimited": "always fails with status 429 and `Retry-After: 20`; alone and with the default `retries`, a call "
    "takes 40 seconds",
}
"""What each model of the demo does. A model without an entry fails the build."""

MODELS = {
    "anthropic": "Claude models. A request may have `temperature` or `top_p`, not both: with both, `top_p` is dropped. "
    "Claude 4.7 and later, Fable and Mythos take neither: both are dropped. Each loss is a notice.",
    "azure": "OpenAI models in Azure.",
    "azure-ai": "Models of many makers in Azure.",
    "azure-anthropic": "Claude models in Azure.",
    "bedrock": "Models in AWS: Claude, Nova, Llama and others.",
    "bedrock-anthropic": "Claude models in AWS, by the protocol of Anthropic.",
    "cohere": "Command models, and embeddings.",
    "deepseek": "DeepSeek models.",
    "demo": "The models of the demo.",
    "gemini": "Gemini models.",
    "google": "Gemini models.",
    "google-interactions": "Gemini models, by Google's newer protocol.",
    "mistral": "Mistral models. `codestral*` continues texts (`raw`) and fills gaps (`suffix`); the rows about them "
    "below are true of the other models.",
    "moonshot": "Kimi models.",
    "openai": "GPT models.",
    "openai-chat": "GPT models, by Chat Completions.",
    "openai-responses": "GPT models, by the Responses API.",
    "perplexity": "Sonar models.",
    "vertex": "Gemini models in Google Cloud.",
    "vertex-anthropic": "Claude models in Google Cloud.",
    "xai": "Grok models.",
    "zai": "GLM models.",
}
"""The models of a provider, in a sentence; the index has the first one."""
