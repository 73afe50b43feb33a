"""Claude Code on local models: a gateway that answers Claude's names with a model of yours.

`python examples/claude_code_local.py ollama/qwen3-coder:30b` runs it and prints what to set. With `--try` it uses the
demo and sends one request, as Claude Code does.
"""

import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CONFIG = """\
[gateway]
port = {port}

[aliases]
local = "{spec}"
"claude-*" = "local"     # Claude Code asks for helper models by these names
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def try_it(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    while connection.sock is None:  # until the gateway listens
        try:
            connection.connect()
        except OSError:
            time.sleep(0.02)
    question = {"role": "user", "content": "Is it so?"}
    body = json.dumps({"model": "claude-haiku-4-5", "max_tokens": 100, "messages": [question]})
    connection.request("POST", "/v1/messages", body, {"anthropic-version": "2023-06-01", "x-api-key": "-"})
    answer = connection.getresponse()
    print(f"{answer.headers['x-dragoman-target']}: {json.loads(answer.read())['content'][0]['text']}")
    connection.close()


def main() -> None:
    words = [word for word in sys.argv[1:] if word != "--try"]
    is_trial = "--try" in sys.argv
    port = free_port() if is_trial else 8080
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "dragoman.toml"
        config.write_text(CONFIG.format(port=port, spec=words[0] if words else "demo/any"), encoding="utf-8")
        print(
            f"export ANTHROPIC_BASE_URL=http://127.0.0.1:{port} ANTHROPIC_API_KEY=- ANTHROPIC_MODEL=local", flush=True
        )
        command = [sys.executable, "-m", "dragoman", "serve", "--config", str(config)]
        process = subprocess.Popen(command, env=os.environ, stderr=subprocess.DEVNULL if is_trial else None)  # noqa: S603 - our own command
        try:
            if is_trial:
                try_it(port)
            else:
                process.wait()
        except KeyboardInterrupt:
            pass
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()
