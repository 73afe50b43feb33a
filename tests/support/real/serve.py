"""Serves a tiny model with the HTTP server of llama.cpp, until stdin is closed.

Run `python -m tests.support.real.serve FOLDER NAME KEY`. It prints one line of JSON: `{"url": …}` once it listens, or
`{"missing": …}` if a package cannot be imported. The log of the server goes to stderr.
"""

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any


def main(folder: Path, name: str, key: str) -> None:
    """Write the model, serve it on a free port, and stop when stdin is closed, so that it never outlives its parent."""
    report = os.dup(1)
    os.dup2(2, 1)  # the server writes its log to both
    try:
        xllamacpp: Any = import_module("xllamacpp")  # untyped and optional
        from tests.support.real.tiny import write_model
    except ImportError as error:
        _report(report, missing=f"{type(error).__name__}: {error}")
        return
    path = folder / "tiny.gguf"
    write_model(path)
    server = xllamacpp.Server(_settings(xllamacpp.CommonParams(), path, name, key))
    _report(report, url=server.listening_address)
    sys.stdin.buffer.read()
    os._exit(0)  # at once: nothing that the server still does is needed


def _settings(params: Any, path: Path, name: str, key: str) -> Any:
    params.model.path = str(path)
    params.model_alias = {name}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [key]
    params.n_ctx = 2048
    params.n_parallel = 1
    params.n_threads_http = 64  # an idle connection blocks its thread for 5 s
    params.n_predict = 1000  # at temperature 0 the random text repeats itself
    params.n_gpu_layers = 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.sampling.seed = 7
    params.use_jinja = True
    params.enable_reasoning = 0  # unless a request turns it on
    params.offline = True
    params.ui = False
    return params


def _report(report: int, **facts: str) -> None:
    os.write(report, json.dumps(facts).encode() + b"\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
