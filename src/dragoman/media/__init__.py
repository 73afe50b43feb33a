"""A request in, the request that a target can take out: what a picture is, how large, and how it is made to fit."""

from dragoman.media.cache import MediaCache
from dragoman.media.fit_request import Fitted, Media, check_readable, fit, has_result_media
from dragoman.media.image_header import Header, measure

__all__ = ["MediaCache", "Fitted", "Header", "Media", "check_readable", "fit", "has_result_media", "measure"]
