"""`dragoman admin KIND ACTION`: every operation of a running gateway's admin API."""

import re
import sys
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args
from urllib.parse import quote, urlencode

import msgspec

from dragoman.cli import terminal
from dragoman.cli.gateway_client import call_gateway, wait_for_gateway
from dragoman.cli.parser import UsageError
from dragoman.gateway.management.api import OPERATIONS
from dragoman.gateway.management.operations import PREFIX, AdminOperation
from dragoman.gateway.management.tables import TableBody
from dragoman.gateway.store.base import NANODOLLARS
from dragoman.targets.dsn import did_you_mean
from dragoman.types import JsonObject, is_list, is_object

MAX_ANSWER = 1 << 30
_PERIODS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_BUDGET = r"\$?(?P<amount>[\d_.]+)\s*(?P<unit>tokens?|dollars?)?/(?P<per>day|week|month)"
_HIDDEN_COLUMNS = ("table", "losses", "attempt_details", "fields", "request_id")
_ONLY_JSON = ("totals",)
"""Fields that `--json` has: their rows repeat others (`by=total` prints them)."""
_VALUES = ("levels", "budgets")
"""Lists that are a value of one row, not rows of their own."""
_LISTS = ("targets", "providers", "models", "api_keys")
"""Fields of tables that are lists; anything else with a comma is a text."""
_TIMES = ("at", "start", "started_at", "since", "until")


def run(arguments: Namespace, /) -> int:
    """Call one operation and print its answer."""
    if arguments.kind is None:
        terminal.write_table([(_usage(operation), operation.summary) for operation in OPERATIONS])
        return 0
    if arguments.action is None and (own := [each for each in OPERATIONS if each.id.startswith(f"{arguments.kind}.")]):
        terminal.write_table([(_usage(operation), operation.summary) for operation in own])
        return 0
    operation = _find(arguments.kind, arguments.action)
    name, words = _split_name(operation, arguments.words)
    fields = [_split_field(word) for word in words]
    wait_for_gateway(arguments)
    response = call_gateway(
        arguments,
        operation.method,
        _path(operation, name, fields),
        _body(operation, name, fields),
        max_answer=MAX_ANSWER,
    )
    if operation.content_type != "application/json":
        terminal.write(response.body.decode())
        return 0
    answer = msgspec.json.decode(response.body)
    if arguments.json:
        terminal.write_json(answer)
    else:
        _print(answer)
    return 0


def _find(kind: str, action: str | None) -> AdminOperation:
    known = {operation.id: operation for operation in OPERATIONS}
    found = known.get(f"{kind}.{action}")
    if found is not None:
        return found
    actions = [id.partition(".")[2] for id in known if id.startswith(f"{kind}.")]
    if actions:
        raise UsageError(f"ACTION must be one of {', '.join(actions)}, got {action!r}")
    kinds = list(dict.fromkeys(id.partition(".")[0] for id in known))
    hint = did_you_mean(kind, kinds)
    raise UsageError(f"KIND must be one of {', '.join(kinds)}, got {kind!r}{hint}")


def _usage(operation: AdminOperation) -> str:
    words = operation.id.split(".")
    fields = ["FIELD"] if operation.body is TableBody else [*_fields(operation)]
    name = ["NAME"] if operation.has_name or "name" in fields else []
    return " ".join([*words, *name, *(f"[{field}=…]" for field in fields if field != "name")])


def _fields(operation: AdminOperation) -> Mapping[str, Any]:
    """The fields that the operation takes, and their types."""
    struct = operation.body or operation.query
    return {} if struct is None else {field.encode_name: field.type for field in msgspec.structs.fields(struct)}


def _split_name(operation: AdminOperation, words: Sequence[str]) -> tuple[str, Sequence[str]]:
    if not (operation.has_name or "name" in _fields(operation)):
        return "", words
    if not words or "=" in words[0]:
        raise UsageError(f"NAME is missing: dragoman admin {_usage(operation)}")
    return words[0], words[1:]


def _split_field(word: str) -> tuple[str, str]:
    field, equals, value = word.partition("=")
    if not equals or not field:
        raise UsageError(f"{word[:40]!r} must be a field and its value, such as team=research")
    return field, _read(value)


def _read(value: str) -> str:
    """The value, or the content of a file for @FILE: a secret on the command line is in the list of processes."""
    if not value.startswith("@"):
        return value
    return (sys.stdin.read() if value == "@-" else Path(value[1:]).read_text(encoding="utf-8")).strip()


def _path(operation: AdminOperation, name: str, fields: Iterable[tuple[str, str]]) -> str:
    path = PREFIX + operation.path.replace("{name}", quote(name, safe=""))
    if operation.query is None:
        return path
    known = _fields(operation)
    for field, _ in fields:
        _check_field(field, known)
    query = urlencode(dict(fields))
    return f"{path}?{query}" if query else path


def _body(operation: AdminOperation, name: str, fields: Sequence[tuple[str, str]]) -> bytes:
    if operation.body is None:
        if fields and operation.query is None:
            raise UsageError(f"{operation.id.replace('.', ' ')} takes no fields, got {fields[0][0]!r}")
        return b""
    if operation.body is TableBody:
        table = {field: _list(value) if _is_plain_list(field, value) else _json(value) for field, value in fields}
        return msgspec.json.encode({"table": table})
    known = _fields(operation)
    body = {"name": name} if "name" in known else {}
    for field, value in fields:
        _check_field(field, known)
        body[field] = _value(field, value, known[field])
    return msgspec.json.encode(body)


def _check_field(field: str, known: Mapping[str, Any]) -> None:
    if field not in known or field == "name":
        names = [name for name in known if name != "name"]
        raise UsageError(f"unknown field {field!r}{did_you_mean(field, names)}; use one of {', '.join(names)}")


def _value(field: str, text: str, type: Any) -> Any:
    kinds = get_args(type) or (type,)
    if text in ("", "null") and None.__class__ in kinds:
        return None
    if field == "budgets":
        return _json(text) if text.startswith("[") else [_budget(each) for each in text.split(",") if each.strip()]
    if field == "expires_at" and (after := re.fullmatch(r"(\d{1,6})([smhdw])", text)):
        moment = datetime.now(UTC) + timedelta(seconds=int(after[1]) * _PERIODS[after[2]])
        return moment.replace(microsecond=0).isoformat()
    if field == "expires_at" and not re.match(r"\d{4}-", text):
        raise UsageError(f"expires_at must be like 90d (s, m, h, d, w), 2027-01-31T00:00:00Z or null, got {text!r}")
    if any(getattr(kind, "__origin__", None) is tuple for kind in kinds):
        return _list(text)
    return text if str in kinds or datetime in kinds else _json(text)


def _is_plain_list(field: str, text: str) -> bool:
    return field in _LISTS and not text.startswith(("[", "{"))


def _list(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _budget(text: str) -> JsonObject:
    match = re.fullmatch(_BUDGET, text.strip())
    if match is None:
        raise UsageError(f"budgets must be like 50/month or 100000tokens/day, separated by commas, got {text!r}")
    amount = match["amount"].replace("_", "")
    if (match["unit"] or "").startswith("token"):
        return {"per": match["per"], "tokens": int(float(amount))}
    return {"per": match["per"], "dollars": float(amount)}


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _print(answer: JsonObject) -> None:
    """Print a list as a table, and anything else as lines; a new key alone on stdout, so that it can be piped."""
    plain = answer.get("key")
    if isinstance(plain, str) and "source" in answer:
        terminal.write(f"{plain}\n")
        terminal.note(f"The key {answer['name']} is shown only once.")
        return
    answer = {field: value for field, value in answer.items() if field not in _ONLY_JSON}
    rest = dict(answer)
    for field, value in answer.items():
        if is_list(value) and value and all(map(is_object, value)) and field not in _VALUES:
            rest.pop(field)
            _print_rows(value)
    lines = [(field, _cell(field, value)) for field, value in rest.items() if value not in (None, [], "", False)]
    if len(rest) == len(answer):
        terminal.write_table(lines)
    else:
        for field, text in lines:
            terminal.note(f"{field}: {text}")


def _print_rows(rows: Sequence[JsonObject]) -> None:
    columns = [field for field in dict.fromkeys(field for row in rows for field in row) if field not in _HIDDEN_COLUMNS]
    columns = [field for field in columns if any(row.get(field) not in (None, [], False) for row in rows)]
    if rows:
        heads = ["dollars" if field == "cost" else field for field in columns]
        terminal.write_table([heads, *([_cell(field, row.get(field)) for field in columns] for row in rows)])


def _cell(field: str, value: Any) -> str:
    if field in _TIMES and isinstance(value, float):
        return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M:%S")
    if field == "cost" and isinstance(value, int):
        return f"{value / NANODOLLARS:.6f}"
    if field in _VALUES and is_list(value):
        return ", ".join(_limit(each) for each in value)
    return _text(value)


def _limit(limit: JsonObject) -> str:
    """A level as `3/60 requests/minute`, a budget as `50.0 dollars/month`."""
    if "unit" not in limit:
        units = [
            f"{limit[unit]} {unit}/{limit['per']}" for unit in ("tokens", "dollars") if limit.get(unit) is not None
        ]
        return ", ".join(units)
    per = "" if limit["per"] is None else f"/{limit['per']}"
    return f"{limit['used']:g}/{limit['limit']:g} {limit['unit']}{per}"


def _text(value: Any) -> str:
    if is_list(value):
        return ", ".join(map(_text, value))
    if is_object(value):
        return msgspec.json.encode(value).decode()
    if isinstance(value, float):
        value = round(value, 6)
    return "" if value is None else terminal.replace_controls(str(value))
