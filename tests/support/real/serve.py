"""A folder, a name and a key in; llama.cpp's own HTTP server with a tiny model out, until its input is closed.

Run as `python -m tests.support.real.serve FOLDER NAME KEY`. The one line on its output is JSON: `{"url": …}` once it listens, or
`{"missing": …}` where a wheel cannot be imported. What the server itself has to say goes to the error output.
"""

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn


def main(folder: Path, name: str, key: str) -> None:
    """Make the model, serve it on a port that is free, and end with the input: so it never outlives who started it."""
    report = os.dup(1)
    os.dup2(2, 1)  # the server writes its log to both
    try:
        xllamacpp: Any = import_module("xllamacpp")  # it has no types, and need not be there
        from tests.support.real.tiny import write_model
    except ImportError as error:
        _tell(report, missing=f"{type(error).__name__}: {error}")
        return
    path = folder / "tiny.gguf"
    write_model(path)
    server = xllamacpp.Server(_settings(xllamacpp.CommonParams(), path, name, key))
    _tell(report, url=server.listening_address)
    sys.stdin.buffer.read()
    _leave()


def _settings(params: Any, path: Path, name: str, key: str) -> Any:
    params.model.path = str(path)
    params.model_alias = {name}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [key]
    params.n_ctx = 2048
    params.n_parallel = 1
    params.n_threads_http = 64  # an idle connection keeps its thread for 5 s, and who finds none waits so long
    params.n_predict = 1000  # without chance, random letters go round in circles
    params.n_gpu_layers = 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.sampling.seed = 7
    params.use_jinja = True
    params.enable_reasoning = 0  # unless it is asked for
    params.offline = True
    params.ui = False
    return params


def _tell(report: int, **facts: str) -> None:
    os.write(report, json.dumps(facts).encode() + b"\n")


def _leave() -> NoReturn:
    """At once: what the server still does is of no use to anybody."""
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
