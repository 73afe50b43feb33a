"""A request in, the request that a target can take out: what a picture is, how large, and how it is made to fit."""

from dragoman.media.album import Album
from dragoman.media.headers import Header, measure
from dragoman.media.requests import Fitted, Media, check_readable, fit, has_result_media

__all__ = ["Album", "Fitted", "Header", "Media", "check_readable", "fit", "has_result_media", "measure"]
