"""The admin API does what its OpenAPI document says, and the document has every operation."""

import asyncio
from typing import Any

import msgspec
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi import checks as openapi_checks

from dragoman.gateway.management import openapi
from dragoman.gateway.management.api import OPERATIONS
from dragoman.gateway.server.asgi import Asgi
from tests.support.gateway.admin import ADMIN, ROOT_CONFIG, Admin, app_of

DOCUMENT = msgspec.json.decode(msgspec.json.encode(openapi.document(OPERATIONS)))
APP = app_of(ROOT_CONFIG)
SCHEMA: Any = schemathesis.openapi.from_dict(DOCUMENT)
SCHEMA.app = Asgi(APP)
SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
CHECKS: Any = openapi_checks
UNSAYABLE = [CHECKS.positive_data_acceptance, CHECKS.ignored_auth, CHECKS.unsupported_method]
"""A schema cannot tell that a name is not known, or that a spec has no target. The key of the test is a header."""


@SCHEMA.parametrize()  # type: ignore[untyped-decorator]  # schemathesis gives it no type
@settings(max_examples=8, deadline=None, derandomize=True, database=None, suppress_health_check=SLOW)
def test_the_document_holds(case: Any) -> None:
    case.headers = {**(case.headers or {}), "authorization": f"Bearer {ADMIN}"}
    response = case.call()
    case.validate_response(response, excluded_checks=UNSAYABLE)
    assert response.status_code < 500


def test_the_document_is_served_and_complete() -> None:
    status, served = asyncio.run(Admin(APP).send("GET", "/admin/api/openapi.json"))
    assert (status, served) == (200, DOCUMENT)
    listed = {operation["operationId"] for path in served["paths"].values() for operation in path.values()}
    assert listed == {operation.id for operation in OPERATIONS}
    assert len(listed) == len(OPERATIONS)
