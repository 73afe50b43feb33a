"""The native dialect does what its own document says: no fault of ours, and no answer that is not written there."""

from typing import Any

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi import checks as openapi_checks

from dragoman.gateway.server.asgi import Asgi
from dragoman.types import is_object
from dragoman.wires.native.openapi import document
from tests.support.gateway.dialects import app_of

SCHEMA: Any = schemathesis.openapi.from_dict(document())
SCHEMA.app = Asgi(app_of())
SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
CHECKS: Any = openapi_checks
UNSAYABLE = [CHECKS.positive_data_acceptance]
"""A schema cannot tell that a call is not answered, or that a name is of no tool."""


@SCHEMA.parametrize()  # type: ignore[untyped-decorator]  # schemathesis gives it no type
@settings(max_examples=20, deadline=None, derandomize=True, database=None, suppress_health_check=SLOW)
def test_the_document_holds(case: Any) -> None:
    body = case.body
    if is_object(body) and case.meta.generation.mode.value == "positive":
        case.body = {**body, "model": "demo/any", "tier": None}
    response = case.call()
    case.validate_response(response, excluded_checks=UNSAYABLE)
    assert response.status_code < 500
