"""A request in, the request that a target can take out: what a picture is, how large, and how it is made to fit."""

from dragoman.media.headers import Header, measure
from dragoman.media.requests import Album, check, fit, is_heavy, urls_to_fetch

__all__ = ["Album", "Header", "check", "fit", "is_heavy", "measure", "urls_to_fetch"]
