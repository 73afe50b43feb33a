"""A provider on loopback with batches: as OpenAI, Mistral, Anthropic, Google and Bedrock have them, and ordinary calls.

Jobs wait until `release` is called, so that a test decides when they end.
"""

import hashlib
import json
import re
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from typing import Any

from dragoman import wires
from dragoman.demo import answers
from dragoman.http import HttpRequest
from dragoman.wires.common.multipart import decode_form

PATHS = {
    "/v1/chat/completions": "openai_chat",
    "/v1/responses": "openai_responses",
    "/v1/messages": "anthropic",
    "/v1beta/models/m:generateContent": "google",
    "/model/m/converse": "bedrock",
    "/model/m/invoke": "anthropic",
}
Json = dict[str, Any]


class BatchProvider:
    """The state of the provider."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        """The prompts of ordinary calls."""
        self.jobs: dict[str, Json] = {}
        self.files: dict[str, bytes] = {}
        self.paths: list[tuple[str, str]] = []
        self.fate: Callable[[str], str] = lambda _: "answered"
        """What becomes of a row with a prompt: answered, failed or expired."""
        self.rejects = False
        """Whether new jobs are refused."""
        self.drops_reply = False
        """Whether the reply to the next new job is lost."""
        self.fails_job = False
        self.faults: dict[str, tuple[int, bytes]] = {}
        """What all requests with a method get."""
        self.loses_results = False
        """Whether the results of Bedrock are not written."""
        self.checks_signatures = True
        self.is_released = threading.Event()
        self.has_job = threading.Event()
        self.url = ""
        self._lock = threading.Lock()

    def reply(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes] | None:
        """The status and body of a response; None to close the connection."""
        if method in self.faults:
            return self.faults[method]
        if path.startswith(("/model", "/tides")) and self.checks_signatures:
            check_signature(method, self.url, path, headers, body)
        path = path.partition("?")[0].replace("/openai/v1/", "/v1/")
        with self._lock:
            self.paths.append((method, path))
            return self._reply(method, path, headers, body)

    def _reply(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes] | None:
        match method, path.strip("/").split("/"):
            case "POST", [*_] if path in PATHS:
                text, answer = self._answer(PATHS[path], path, body)
                self.calls.append(text)
                return 200, answer
            case "POST", ["v1", "files"]:
                form = decode_form(HttpRequest(method="POST", path=path, headers=headers, body=body))
                assert form["purpose"].text == "batch"
                id = f"file-{len(self.files)}"
                self.files[id] = form["file"].data
                return _json({"id": id})
            case "GET", ["v1", "files", id, "content"]:
                return 200, self.files[id]
            case "PUT", ["tides", *_]:
                self.files[path] = body
                return 200, b""
            case "GET", ["tides", *_] if path not in self.files:
                return 404, b"<?xml version='1.0'?>\n<Error><Code>NoSuchKey</Code><Message>no key</Message></Error>"
            case "GET", ["tides", *_]:
                return 200, self.files[path]
            case "POST", ["model-invocation-job"]:
                return self._create(path, json.loads(body))
            case "GET", ["model-invocation-jobs"]:
                return _json({"invocationJobSummaries": [self._shown(id) for id in self.jobs]})
            case "POST", ["model-invocation-job", id, "stop"]:
                return self._cancel(id)
            case "POST", ["v1", "batches"] | ["v1", "batch", "jobs"] | ["v1", "messages", "batches"]:
                return self._create(path, json.loads(body))
            case "POST", ["v1beta", "models", "m:batchGenerateContent"]:
                return self._create(path, json.loads(body)["batch"])
            case "GET", ["v1", "batches"] | ["v1", "batch", "jobs"] | ["v1", "messages", "batches"]:
                return _json({"data": [self._shown(id) for id in self.jobs]})
            case "GET", ["v1beta", "batches"]:
                return _json({"operations": [self._shown(id) for id in self.jobs]})
            case "GET", ["v1", "messages", "batches", id, "results"]:
                return 200, b"".join(json.dumps(row).encode() + b"\n" for row in self._results(id))
            case "POST", [*_, id, "cancel"] if id in self.jobs:
                return self._cancel(id)
            case "POST", ["v1beta", "batches", name] if name.endswith(":cancel"):
                return self._cancel(name.removesuffix(":cancel"))
            case "GET", [*_, id] if id in self.jobs:
                return _json(self._shown(id))
            case _:
                return _json({"error": {"message": f"no {method} {path}"}}, 404)

    def _create(self, path: str, body: Json) -> tuple[int, bytes] | None:
        if self.rejects:
            return _json({"error": {"message": "batches are not enabled", "code": "forbidden"}}, 400)
        id = f"job{len(self.jobs)}"
        self.jobs[id] = {"path": path, "body": body, "rows": self._rows(path, body), "state": "running"}
        self.has_job.set()
        if self.drops_reply:
            self.drops_reply = False
            return None
        shown = self._shown(id)
        return _json({"jobArn": shown["jobArn"]} if "jobArn" in shown else shown)

    def _rows(self, path: str, body: Json) -> list[tuple[str, str, str, bytes]]:
        """The id, wire, path and body of each row."""
        if "requests" in body:
            return [
                (row["custom_id"], "anthropic", "/v1/messages", json.dumps(row["params"]).encode())
                for row in body["requests"]
            ]
        if "inputConfig" in body:
            listed = body["inputConfig"]["requests"]["requests"]
            where = "/v1beta/models/m:generateContent"
            return [(row["metadata"]["key"], "google", where, json.dumps(row["request"]).encode()) for row in listed]
        if "modelInvocationType" in body:
            place = body["inputDataConfig"]["s3InputDataConfig"]["s3Uri"].removeprefix("s3:/")
            where = "/model/m/converse" if body["modelInvocationType"] == "Converse" else "/model/m/invoke"
            listed = [json.loads(line) for line in self.files[place].splitlines()]
            assert all(row["recordId"].isalnum() for row in listed)
            return [(row["recordId"], PATHS[where], where, json.dumps(row["modelInput"]).encode()) for row in listed]
        file = body.get("input_file_id") or body["input_files"][0]
        rows = [json.loads(line) for line in self.files[file].splitlines()]
        return [(row["custom_id"], PATHS[row["url"]], row["url"], json.dumps(row["body"]).encode()) for row in rows]

    def _cancel(self, id: str) -> tuple[int, bytes]:
        if self._state(id) != "running":
            return _json({"error": {"message": "it has ended"}, "message": "it has ended"}, 409)
        self.jobs[id]["state"] = "cancelled"
        return _json(self._shown(id))

    def _state(self, id: str) -> str:
        state = self.jobs[id]["state"]
        if state == "running" and self.is_released.is_set():
            return "failed" if self.fails_job else "completed"
        return str(state)

    def _fates(self, id: str) -> list[tuple[str, str, bytes]]:
        """The id of each row, what became of it, and its answer. Half of the rows of a cancelled job are answered."""
        found: list[tuple[str, str, bytes]] = []
        rows, state = self.jobs[id]["rows"], self._state(id)
        for index, (custom_id, wire, path, body) in enumerate(rows):
            text, answer = self._answer(wire, path, body)
            fate = self.fate(text)
            if state == "cancelled" and index >= len(rows) // 2:
                fate = "canceled"
            found.append((custom_id, "lost" if state == "failed" else fate, answer))
        return found

    def _results(self, id: str) -> Iterator[Json]:
        for custom_id, fate, answer in self._fates(id):
            refused = {"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}
            kinds: dict[str, Json] = {
                "answered": {"type": "succeeded", "message": json.loads(answer)},
                "failed": {"type": "errored", "error": refused},
            }
            if fate != "lost":
                yield {"custom_id": custom_id, "result": kinds.get(fate, {"type": fate})}

    def _shown(self, id: str) -> Json:
        job, state = self.jobs[id], self._state(id)
        fates, is_over = self._fates(id), state in ("completed", "failed", "cancelled")
        metadata = job["body"].get("metadata")
        good = sum(fate == "answered" for _, fate, _ in fates)
        match job["path"]:
            case "/v1/messages/batches":
                counts = {"processing": 0 if is_over else len(fates), "succeeded": good if is_over else 0}
                counts |= {"errored": 0, "expired": 0, "canceled": len(fates) - good if is_over else 0}
                status = "ended" if is_over else "in_progress"
                when = {"created_at": "2999-01-01T00:00:00Z"}
                return {"id": id, "processing_status": status, "request_counts": counts, **when}
            case "/v1beta/models/m:batchGenerateContent":
                return self._operation(id, fates, state)
            case "/model-invocation-job":
                return self._invocation_job(id, fates, state)
            case "/v1/batch/jobs":
                status = {"completed": "SUCCESS", "failed": "FAILED", "cancelled": "CANCELLED"}.get(state, "RUNNING")
                done = {"total_requests": len(fates), "succeeded_requests": good if is_over else 0}
                place = {"output_file": self._output(id, fates)} if is_over else {}
                return {"id": id, "status": status, "metadata": metadata, **done, **place}
            case _:
                counts = {"total": len(fates), "completed": good if is_over else 0, "failed": 0}
                place = {"output_file_id": self._output(id, fates)} if is_over and state != "failed" else {}
                errors = {"errors": {"data": [{"message": "line 1 is wrong"}]}} if state == "failed" else {}
                status = "in_progress" if state == "running" else state
                return {"id": id, "status": status, "request_counts": counts, "metadata": metadata, **place, **errors}

    def _operation(self, id: str, fates: list[tuple[str, str, bytes]], state: str) -> Json:
        name = {"completed": "SUCCEEDED", "failed": "FAILED", "cancelled": "CANCELLED"}.get(state, "RUNNING")
        metadata = {"state": f"BATCH_STATE_{name}", "displayName": self.jobs[id]["body"]["displayName"]}
        if name == "RUNNING":
            return {"name": f"batches/{id}", "metadata": metadata}
        rows: list[Json] = [
            {"metadata": {"key": key}, "response": json.loads(answer)}
            if fate == "answered"
            else {"metadata": {"key": key}, "error": {"code": 3, "message": fate}}
            for key, fate, answer in fates
        ]
        response = {"inlinedResponses": {"inlinedResponses": rows}}
        return {"name": f"batches/{id}", "metadata": metadata, "done": True, "response": response}

    def _invocation_job(self, id: str, fates: list[tuple[str, str, bytes]], state: str) -> Json:
        body = self.jobs[id]["body"]
        arn = {"jobArn": f"arn:aws:bedrock:us-east-1:123456789012:model-invocation-job/{id}"}
        status = {"completed": "Completed", "failed": "Failed", "cancelled": "Stopped"}.get(state, "InProgress")
        names = ("jobName", "inputDataConfig", "outputDataConfig")
        counts = {"totalRecordCount": len(fates), "processedRecordCount": 0}
        if status in ("Completed", "Stopped") and not self.loses_results:
            counts["processedRecordCount"] = sum(fate in ("answered", "failed") for _, fate, _ in fates)
            rows: list[Json] = []
            for key, fate, answer in fates:
                wrong = {"errorCode": 400, "errorMessage": "no", "expired": fate == "expired"}
                kinds = {"answered": {"modelOutput": json.loads(answer)}, "canceled": {}}
                rows.append({"recordId": key, "modelInput": {}, **kinds.get(fate, {"error": wrong})})
            folder = body["outputDataConfig"]["s3OutputDataConfig"]["s3Uri"].removeprefix("s3:/")
            self.files[f"{folder}{id}/rows.jsonl.out"] = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
        problem = {"message": "line 1 is wrong"} if status == "Failed" else {}
        return {**arn, "status": status, **{name: body[name] for name in names}, **counts, **problem}

    def _output(self, id: str, fates: list[tuple[str, str, bytes]]) -> str:
        rows: list[Json] = []
        for custom_id, fate, answer in fates:
            if fate == "answered":
                rows.append({"custom_id": custom_id, "response": {"status_code": 200, "body": json.loads(answer)}})
            elif fate == "failed":
                wrong = {"status_code": 400, "body": {"error": {"message": "no"}}}
                rows.append({"custom_id": custom_id, "response": wrong})
            elif fate != "lost":
                rows.append({"custom_id": custom_id, "response": None, "error": {"code": "batch_expired"}})
        self.files[f"output-{id}"] = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
        return f"output-{id}"

    def _answer(self, wire: str, path: str, body: bytes) -> tuple[str, bytes]:
        server = wires.get(wire).other_servers[0] if path.endswith("/invoke") else wires.get(wire).server
        _, request = server.decode_request(HttpRequest(method="POST", path=path, body=body))
        return request.messages[-1].text, server.encode_body(answers.answer(request, "any"), request).body


def check_signature(method: str, origin: str, path: str, headers: dict[str, str], body: bytes) -> None:
    """Sign the request again with botocore, and compare."""
    auth, awsrequest = import_module("botocore.auth"), import_module("botocore.awsrequest")
    credentials = import_module("botocore.credentials")
    found = re.fullmatch(
        r"AWS4-HMAC-SHA256 Credential=AKID/\d{8}/([\w-]+)/([\w-]+)/aws4_request, SignedHeaders=(\S+), Signature=(\w+)",
        headers["authorization"],
    )
    assert found is not None, "signed by Signature Version 4"
    region, service, names, signature = found.groups()
    assert service == ("s3" if path.startswith("/tides") else "bedrock")
    signed = {name: value for name, value in headers.items() if name in names.split(";")}
    request = awsrequest.AWSRequest(method=method, url=f"{origin}{path}", data=body, headers=signed)
    request.context["timestamp"] = headers["x-amz-date"]
    kind = auth.S3SigV4Auth if service == "s3" else auth.SigV4Auth
    signer = kind(credentials.Credentials("AKID", "secret"), service, region)
    if service == "s3":
        assert headers["x-amz-content-sha256"] == hashlib.sha256(body).hexdigest()
    text = signer.string_to_sign(request, signer.canonical_request(request))
    assert signer.signature(text, request) == signature, f"botocore signs {method} {path} otherwise"


def _json(data: Json, status: int = 200) -> tuple[int, bytes]:
    return status, json.dumps(data).encode()


@contextmanager
def batch_provider() -> Generator[BatchProvider, None, None]:
    """A provider that listens on loopback."""
    provider = BatchProvider()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _do(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = provider.reply(self.command, self.path, headers, body)
            if reply is None:
                self.close_connection = True
                return
            self.send_response(reply[0])
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(reply[1])))
            self.end_headers()
            self.wfile.write(reply[1])

        do_GET = do_POST = do_PUT = _do  # noqa: N815 - the names that the base class calls

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    provider.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
