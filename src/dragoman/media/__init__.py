"""Media in requests: what an image is, how large it is, and how it is changed to fit a target."""

from dragoman.media.cache import MediaCache
from dragoman.media.fit_request import (
    FittedRequest,
    RequestMedia,
    check_media,
    check_readable,
    find_media,
    fit,
    has_result_media,
)
from dragoman.media.image_header import ImageHeader, measure

__all__ = [
    "FittedRequest",
    "ImageHeader",
    "MediaCache",
    "RequestMedia",
    "check_media",
    "check_readable",
    "find_media",
    "fit",
    "has_result_media",
    "measure",
]
