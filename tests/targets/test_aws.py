"""Signature Version 4: the published vectors, botocore as the oracle, and the files of profiles."""

import datetime as dt
import hashlib
from importlib import import_module
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import SetupError
from dragoman.http import HttpRequest
from dragoman.targets.aws import AwsKeys, keys_from_env, read_profile, region_of, sign_v4
from dragoman.targets.target import S3_HASH

KEYS = AwsKeys(access_key="AKIDEXAMPLE", secret_key="wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
MOMENT = 1440938160.0
UNRESERVED = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
TOKEN = (
    "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUu"
    "wthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQc"
    "HNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/o"
    "LxBA=="
)
FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "signature"),
    [
        ("GET", "/", {}, b"", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        (
            "GET",
            "/?Param2=value2&Param1=value1",
            {},
            b"",
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ),
        ("POST", "/", {}, b"", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
        *(
            ("GET", path, {}, b"", signature)
            for path, signature in (
                (f"/{UNRESERVED}", "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"),
                ("/?Param1=value1", "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb"),
                (
                    "/?Param-3=Value3&Param=Value2&%E1%88%B4=Value1",
                    "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac",
                ),
                ("/?Param1=value2&Param1=Value1", "eedbc4e291e521cf13422ffca22be7d2eb8146eecf653089df300a15b2382bd1"),
                ("/?Param1=value2&Param1=value1", "5772eed61e12b33fae39ee5e7012498b51d56abc0abb7c60486157bd471c4694"),
                (f"/?{UNRESERVED}={UNRESERVED}", "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197"),
                ("/?\u1234=bar", "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"),
                ("/example/..", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
                ("/example1/example2/../..", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
                ("/./", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
                ("/./example", "ef75d96142cf21edca26f06005da7988e4f8dc83a165a80865db7089db637ec5"),
                ("//", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
                ("//example//", "9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84"),
                ("/example space/", "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741"),
                ("/example/$delete", "a853c9b21b528b19643d00910d35b83a10c366a10833ceefb45edd6c80e40f27"),
                ("/\u1234", "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"),
            )
        ),
        (
            "POST",
            "/?Param1=value1",
            {},
            b"",
            "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11",
        ),
        (
            "POST",
            "/",
            {"content-type": "application/x-www-form-urlencoded; charset=utf8"},
            b"Param1=value1",
            "1a72ec8f64bd914b0e42e42607c7fbce7fb2c7465f63e3092b3b0d39fa77a6fe",
        ),
        (
            "POST",
            "/",
            {"X-Amz-Security-Token": TOKEN},
            b"",
            "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead",
        ),
        ("POST", "/", FORM, b"Param1=value1", "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"),
    ],
)
def test_the_published_vectors(method: str, path: str, headers: dict[str, str], body: bytes, signature: str) -> None:
    http = HttpRequest(method=method, origin="https://example.amazonaws.com", path=path, headers=headers, body=body)
    signed = sign_v4(http, KEYS, "us-east-1", "service", MOMENT).headers["authorization"]
    assert signed.endswith(f"Signature={signature}")
    assert signed.startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, ")


def oracle(http: HttpRequest, keys: AwsKeys, region: str, service: str, moment: float) -> dict[str, str]:
    """The headers after botocore signed the request."""
    auth = pytest.importorskip("botocore.auth")
    awsrequest, credentials = import_module("botocore.awsrequest"), import_module("botocore.credentials")

    now = dt.datetime.fromtimestamp(moment, dt.UTC)
    request = awsrequest.AWSRequest(method=http.method, url=http.url, data=http.body, headers=dict(http.headers))
    signer = (auth.S3SigV4Auth if service == "s3" else auth.SigV4Auth)(
        credentials.Credentials(keys.access_key, keys.secret_key, keys.session_token), service, region
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auth, "get_current_datetime", lambda: now)
        signer.add_auth(request)
    return {name.lower(): value for name, value in request.headers.items()}


SEGMENTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=12)
WORDS = st.from_regex(r"[A-Za-z0-9+/=_-]{1,40}", fullmatch=True)


@settings(max_examples=150, deadline=None)
@given(
    segments=st.lists(SEGMENTS, max_size=4),
    query=st.lists(st.tuples(SEGMENTS, SEGMENTS), max_size=3),
    body=st.binary(max_size=64),
    secret=WORDS,
    token=st.none() | WORDS,
    moment=st.integers(0, 2**32).map(float),
    port=st.sampled_from(["", ":8443", ":443"]),
)
def test_the_signature_is_that_of_botocore(
    segments: list[str],
    query: list[tuple[str, str]],
    body: bytes,
    secret: str,
    token: str | None,
    moment: float,
    port: str,
) -> None:
    path = "/" + "/".join(quote(segment, safe="~") for segment in segments)
    pairs = "&".join(f"{quote(name, safe='~')}={quote(value, safe='~')}" for name, value in query)
    http = HttpRequest(
        method="POST",
        origin=f"https://bedrock-runtime.eu-west-1.amazonaws.com{port}",
        path=f"{path}?{pairs}" if pairs else path,
        headers={"content-type": "application/json"},
        body=body,
    )
    keys = AwsKeys(access_key="AKIDEXAMPLE", secret_key=secret, session_token=token)
    signed = sign_v4(http, keys, "eu-west-1", "bedrock", moment)
    assert dict(signed.headers) == oracle(http, keys, "eu-west-1", "bedrock", moment)


@settings(max_examples=100, deadline=None)
@given(segments=st.lists(SEGMENTS, max_size=4), body=st.binary(max_size=64), token=st.none() | WORDS)
def test_the_signature_for_s3_is_that_of_botocore(segments: list[str], body: bytes, token: str | None) -> None:
    http = HttpRequest(
        method="PUT",
        origin="https://tides.s3.eu-west-1.amazonaws.com",
        path="/" + "/".join(quote(segment, safe="~") for segment in segments),
        headers={"content-type": "application/jsonl", S3_HASH: hashlib.sha256(body).hexdigest()},
        body=body,
    )
    keys = AwsKeys(access_key="AKIDEXAMPLE", secret_key="secret", session_token=token)
    signed = sign_v4(http, keys, "eu-west-1", "s3", MOMENT)
    assert dict(signed.headers) == oracle(http, keys, "eu-west-1", "s3", MOMENT)


def test_the_path_of_an_object_is_signed_as_it_is_sent() -> None:
    http = HttpRequest(
        method="GET",
        origin="https://tides.s3.eu-west-1.amazonaws.com",
        path="/a%20b//c",
        headers={S3_HASH: hashlib.sha256(b"").hexdigest()},
    )
    signed = sign_v4(http, KEYS, "eu-west-1", "s3", MOMENT)
    assert dict(signed.headers) == oracle(http, KEYS, "eu-west-1", "s3", MOMENT)


def test_no_key_in_a_repr() -> None:
    keys = AwsKeys(access_key="AKID", secret_key="secret-1", session_token="secret-2")
    http = HttpRequest(method="POST", origin="https://x.us-east-1.amazonaws.com", path="/")
    signed = sign_v4(http, keys, "us-east-1", "bedrock", MOMENT)
    signature = signed.headers["authorization"].rpartition("=")[2]
    for text in (repr(keys), repr(signed), repr(signed.redacted())):
        assert "secret-" not in text
        assert signature not in text


def test_keys_from_the_environment() -> None:
    env = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "s\n", "AWS_SESSION_TOKEN": "t"}
    assert keys_from_env(env) == AwsKeys(access_key="AKID", secret_key="s", session_token="t")
    assert keys_from_env({"AWS_SECRET_ACCESS_KEY": "s"}) is None
    with pytest.raises(SetupError, match="AWS_SECRET_ACCESS_KEY must be set"):
        keys_from_env({"AWS_ACCESS_KEY_ID": "AKID"})


CREDENTIALS = """
[default]
aws_access_key_id=A1
aws_secret_access_key=S1%x

[work]
aws_access_key_id = A2
aws_secret_access_key = S2
aws_session_token = T2
"""
CONFIG = """
[default]
region = eu-west-1
s3 =
  max_concurrent_requests = 20
[profile work]
region = us-west-2
[profile role]
role_arn = arn:aws:iam::1:role/x
source_profile = work
[profile inline]
aws_access_key_id = A3
aws_secret_access_key = S3
"""


def test_profiles() -> None:
    default = read_profile("default", CREDENTIALS, CONFIG)
    assert default.keys == AwsKeys(access_key="A1", secret_key="S1%x")
    assert default.region == "eu-west-1"
    work = read_profile("work", CREDENTIALS, CONFIG)
    assert work.keys == AwsKeys(access_key="A2", secret_key="S2", session_token="T2")
    assert work.region == "us-west-2"
    assert read_profile("inline", CREDENTIALS, CONFIG).keys == AwsKeys(access_key="A3", secret_key="S3")
    role = read_profile("role", CREDENTIALS, CONFIG)
    assert role.is_known
    assert role.keys is None
    assert role.delegate == "role_arn"
    assert not read_profile("other", CREDENTIALS, CONFIG).is_known
    assert not read_profile("default", "", "").is_known


def test_a_malformed_file_is_not_shown() -> None:
    with pytest.raises(SetupError) as caught:
        read_profile("default", "aws_secret_access_key = secret-1", "")
    assert str(caught.value) == "the credentials file of AWS is malformed (MissingSectionHeaderError)"


def test_the_region_in_a_host() -> None:
    assert region_of("bedrock-runtime.us-gov-west-1.amazonaws.com") == "us-gov-west-1"
    assert region_of("bedrock-mantle.ap-southeast-2.api.aws") == "ap-southeast-2"
    assert region_of("bedrock-runtime-fips.ca-central-1.amazonaws.com:8443") == "ca-central-1"
    assert region_of("127.0.0.1:80") is None


def test_a_session_token_is_signed() -> None:
    http = HttpRequest(method="POST", origin="https://example.amazonaws.com", path="/")
    keys = AwsKeys(access_key=KEYS.access_key, secret_key=KEYS.secret_key, session_token=TOKEN)
    signed = sign_v4(http, keys, "us-east-1", "service", MOMENT).headers["authorization"]
    assert signed.endswith("85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead")


@pytest.mark.parametrize(
    "model",
    [
        "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-x-v1:0",
        "us.anthropic.claude-x-v1:0",
        "a b%2Fc/../d?e#f&g=h;i~*'()!@$,",
        "über/模型",
    ],
)
def test_the_path_of_a_model_is_signed_as_botocore_does(model: str) -> None:
    http = HttpRequest(
        method="POST",
        origin="https://bedrock-runtime.eu-west-1.amazonaws.com",
        path=f"/model/{quote(model, safe='')}/converse",
        headers={"content-type": "application/json"},
        body=b"{}",
    )
    signed = sign_v4(http, KEYS, "eu-west-1", "bedrock", MOMENT)
    assert dict(signed.headers) == oracle(http, KEYS, "eu-west-1", "bedrock", MOMENT)


def test_who_gives_the_keys_of_a_profile() -> None:
    config = "[profile a]\nsso_account_id = 1\n[profile b]\ncredential_process = x\n[profile c]\nlogin_session = y\n"
    assert (
        read_profile("a", "[a]\naws_access_key_id = A\naws_secret_access_key = s", config).delegate == "sso_account_id"
    )
    assert read_profile("b", "", config).delegate == "credential_process"
    assert read_profile("b", "[b]\naws_access_key_id = A\naws_secret_access_key = s", config).delegate is None
    assert read_profile("c", "", config).delegate == "login_session"
