"""The endpoints of another gateway besides generation, as a client: models."""

from dragoman.http import HttpRequest
from dragoman.targets.target import Target
from dragoman.wires.common.endpoints import Endpoints
from dragoman.wires.common.http import get_request


class _Endpoints(Endpoints):
    def encode_models(self, target: Target, /) -> HttpRequest:
        return get_request(target, "/models")


ENDPOINTS = _Endpoints()
