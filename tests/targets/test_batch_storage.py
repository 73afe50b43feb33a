"""The storage of batches in a config: what is wrong is named."""

from typing import Any

import pytest

from dragoman.errors import SetupError
from dragoman.targets.config import make_provider
from dragoman.targets.providers import PROVIDERS
from dragoman.targets.target import BatchStorage

STORAGE = {"uri": "s3://tides/rows", "role": "arn:aws:iam::123456789012:role/batches"}


def provider(**storage: Any) -> Any:
    return make_provider({"name": "bedrock", "batch_storage": storage}, PROVIDERS).batch_storage


def test_a_table_is_a_storage() -> None:
    assert provider(**STORAGE) == BatchStorage(**STORAGE)
    assert provider(**STORAGE).folder == ("tides", "rows/")
    assert BatchStorage(uri="s3://tides/", role=STORAGE["role"]).folder == ("tides", "")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"role": "batches"}, "batch_storage: role must be the ARN of a role, .*, got 'batches'"),
        ({"uri": "https://tides"}, "batch_storage: uri must be s3://bucket or s3://bucket/folder, got 'https://tides'"),
        ({"s3": "x"}, "batch_storage: unknown field 's3'"),
        ({"s3_url": 3}, "batch_storage: s3_url must be a str"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(SetupError, match=reason):
        provider(**{**STORAGE, **change})


def test_both_fields_are_needed() -> None:
    with pytest.raises(SetupError, match=r"batch_storage: role must be passed"):
        provider(uri="s3://tides")
