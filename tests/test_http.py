import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import SetupError
from dragoman.http import Head, HttpRequest, HttpResponse, decode_duration, redact_url, retry_after, split_base_url

DATE = "Wed, 21 Oct 2026 07:28:00 GMT"
EPOCH = 1792567680
"""DATE, in seconds."""


# Requests -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    "Authorization X-API-Key x-goog-api-key api-key Cookie Proxy-Authorization x-auth-token X-Functions-Key "
    "x-client-secret x-amz-security-token X-Amz-Signature".split(),
)
def test_a_repr_shows_no_key_in_a_header(name: str) -> None:
    text = repr(HttpRequest(method="POST", path="/", headers={name: "hush", "accept": "text/event-stream"}))
    assert text == f"HttpRequest(POST /, headers={{'{name}': '[redacted]', 'accept': 'text/event-stream'}}, 0 bytes)"


@pytest.mark.parametrize(
    ("origin", "path", "expected"),
    [
        ("https://x", "/v1?key=hush", "https://x/v1?key=[redacted]"),
        ("https://x", "/v1?alt=sse&API_KEY=hush&b=1", "https://x/v1?alt=sse&API_KEY=[redacted]&b=1"),
        ("https://x", "/v1?access_token=hush#a", "https://x/v1?access_token=[redacted]#a"),
        ("https://me:hush@x", "/v1", "https://[redacted]@x/v1"),
        ("https://x", "/models/key@hush", "https://x/models/key@hush"),
    ],
)
def test_a_repr_shows_no_key_in_an_address(origin: str, path: str, expected: str) -> None:
    assert (
        repr(HttpRequest(method="GET", origin=origin, path=path))
        == f"HttpRequest(GET {expected}, headers={{}}, 0 bytes)"
    )


def test_rich_shows_no_key() -> None:
    request = HttpRequest(method="POST", path="/v1?key=hush", headers={"x-api-key": "hush"}, body=b"hush")
    assert "hush" not in repr(request.__rich_repr__())


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://me:hush@x:8443/a.png?token=hush#hush", "https://x:8443/a.png"),
        ("https://[2001:db8::1]/a.png", "https://[2001:db8::1]/a.png"),
        ("https://me:hu?sh@x/a.png", "an invalid URL"),
        ("https://me:hu/sh@x/a.png", "an invalid URL"),
        ("https://[hush", "an invalid URL"),
        ("me:hush@x/a.png", "me://x/a.png"),
        ("a.png?hush", "a.png"),
    ],
)
def test_a_redacted_url_has_no_secret(url: str, expected: str) -> None:
    assert redact_url(url) == expected


def test_a_repr_shows_no_body() -> None:
    assert repr(HttpRequest(method="POST", path="/", body=b"hush")) == "HttpRequest(POST /, headers={}, 4 bytes)"


def test_a_url_is_origin_and_path() -> None:
    assert HttpRequest(method="GET", origin="https://x", path="/v1").url == "https://x/v1"


def test_a_reply_is_json_from_the_start() -> None:
    assert HttpResponse() == HttpResponse(status=200, headers={"content-type": "application/json"}, body=b"")


@pytest.mark.parametrize("name", ["retry-after", "Retry-After", "RETRY-AFTER"])
def test_a_header_is_found_in_any_case(name: str) -> None:
    assert Head(status=200, headers={"Retry-After": "3"}).header(name) == "3"


def test_a_header_that_is_not_there_is_none() -> None:
    assert Head(status=200).header("retry-after") is None


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("https://x", ("https://x", "")),
        ("https://x/", ("https://x", "")),
        ("http://localhost:11434/v1/", ("http://localhost:11434", "/v1")),
        ("demo://local/v1", ("demo://local", "/v1")),
    ],
)
def test_a_base_url_is_split(url: str, parts: tuple[str, str]) -> None:
    assert split_base_url(url) == parts


@pytest.mark.parametrize("url", ["", "localhost:11434", "api.example.org/v1", "/v1", "https://"])
def test_a_base_url_that_is_not_whole_is_a_wrong_set_up(url: str) -> None:
    with pytest.raises(SetupError, match="must be a URL with a scheme"):
        split_base_url(url)


# Durations ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("3", 3.0),
        (" 1.5 ", 1.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("120ms", 0.12),
        ("48s", 48.0),
        ("7.66s", 7.66),
        ("6m0s", 360.0),
        ("2m59.56s", 179.56),
        ("1h0m0.5s", 3600.5),
        ("1d2h", 93600.0),
        ("512µs", 512e-6),
        ("512μs", 512e-6),
        ("5us", 5e-6),
        ("100ns", 1e-7),
    ],
)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert decode_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "soon", "-1", "+1", "1e3", "5 s", "5s!", "1.2.3", "inf", "nan", "٣", "9" * 400])
def test_what_is_no_duration_is_none(text: str) -> None:
    assert decode_duration(text) is None


@given(st.integers(0, 10**6), st.integers(0, 59), st.integers(0, 59))
def test_a_duration_is_read_as_go_writes_it(hours: int, minutes: int, seconds: int) -> None:
    assert decode_duration(f"{hours}h{minutes}m{seconds}s") == hours * 3600 + minutes * 60 + seconds


# When to ask again ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({"retry-after": "3"}, 3.0, id="seconds"),
        pytest.param({"Retry-After": "1.5"}, 1.5, id="a fraction"),
        pytest.param({"retry-after": "0"}, 0.0, id="at once"),
        pytest.param({"retry-after": "2m30s"}, 150.0, id="a duration"),
        pytest.param({"retry-after-ms": "250"}, 0.25, id="milliseconds"),
        pytest.param({"retry-after-ms": "250", "retry-after": "1"}, 0.25, id="milliseconds are finer"),
        pytest.param({"retry-after-ms": "0", "retry-after": "1"}, 1.0, id="no milliseconds beside a second"),
        pytest.param({"retry-after-ms": "0"}, 0.0, id="no milliseconds alone"),
        pytest.param({"retry-after-ms": "soon", "retry-after": "1"}, 1.0, id="milliseconds that are none"),
        pytest.param({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT", "date": DATE}, 30.0, id="a date"),
        pytest.param({"retry-after": "Wednesday, 21-Oct-26 07:28:30 GMT", "date": DATE}, 30.0, id="an old date"),
        pytest.param({"retry-after": "Wed Oct 21 07:28:30 2026", "date": DATE}, 30.0, id="a date of C"),
        pytest.param({"retry-after": "Wed, 21 Oct 2026 07:28:30 -0000", "date": DATE}, 30.0, id="a date of no zone"),
        pytest.param({"retry-after": "Wed, 21 Oct 2026 07:00:00 GMT", "date": DATE}, 0.0, id="a date that is over"),
        pytest.param({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT"}, None, id="a date and no clock"),
        pytest.param({"retry-after": str(EPOCH + 9), "date": DATE}, 9.0, id="seconds since 1970"),
        pytest.param({"retry-after": str(EPOCH + 9)}, None, id="seconds since 1970 and no clock"),
        pytest.param({"retry-after": "-5"}, None, id="less than nothing"),
        pytest.param({"retry-after": "soon", "date": DATE}, None, id="a word"),
        pytest.param({"retry-after": "9" * 400, "date": DATE}, None, id="for ever"),
        pytest.param({"retry-after": "Wed, 21 Oct 99999 07:28:30 GMT", "date": DATE}, None, id="a year too far"),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_read(status: int, headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(Head(status=status, headers=headers)) == seconds


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        pytest.param({"x-ratelimit-reset-requests": "6m0s"}, 360.0, id="a duration"),
        pytest.param({"x-ratelimit-reset-tokens": "120ms"}, 0.12, id="milliseconds"),
        pytest.param({"RateLimit-Reset": "30"}, 30.0, id="seconds"),
        pytest.param(
            {"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "8.64s"}, 8.64, id="the longest counts"
        ),
        pytest.param(
            {
                "x-ratelimit-reset-requests": "1h",
                "x-ratelimit-remaining-requests": "4999",
                "X-RateLimit-Reset-Tokens": "8.64s",
                "X-RateLimit-Remaining-Tokens": "0",
            },
            8.64,
            id="only what is used up counts",
        ),
        pytest.param({"x-ratelimit-reset": "9s", "x-ratelimit-remaining": "0.0"}, 9.0, id="nothing, with a point"),
        pytest.param({"x-ratelimit-reset": "9s", "x-ratelimit-remaining": "3"}, None, id="nothing is used up"),
        pytest.param(
            {"anthropic-ratelimit-tokens-reset": "2026-10-21T07:28:12Z", "date": DATE}, 12.0, id="a moment of RFC 3339"
        ),
        pytest.param(
            {"anthropic-ratelimit-tokens-reset": "2026-10-21T09:28:12.5+02:00", "date": DATE}, 12.5, id="in a zone"
        ),
        pytest.param({"x-ratelimit-reset": "2026-10-21T07:28:12", "date": DATE}, 12.0, id="in no zone"),
        pytest.param({"x-ratelimit-reset": "2026-10-21T07:28:12Z"}, None, id="a moment and no clock"),
        pytest.param({"x-ratelimit-reset": str((EPOCH + 7) * 1000), "date": DATE}, 7.0, id="milliseconds since 1970"),
        pytest.param({"x-ratelimit-reset": f"{EPOCH + 7}.5", "date": DATE}, 7.5, id="seconds since 1970, with a point"),
        pytest.param({"x-ratelimit-reset": "soon", "date": DATE}, None, id="a word"),
        pytest.param({"retry-after": "soon", "x-ratelimit-reset": "9s"}, 9.0, id="beside a word"),
        pytest.param({"retry-after": "2", "x-ratelimit-reset": "9s"}, 2.0, id="besides retry-after"),
        pytest.param({"x-ratelimit-limit-tokens": "30"}, None, id="a limit is no reset"),
    ],
)
def test_the_reset_of_an_exhausted_limit_is_the_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(Head(status=429, headers=headers)) == seconds


def test_a_limit_counts_only_where_it_is_the_reason() -> None:
    assert retry_after(Head(status=503, headers={"x-ratelimit-reset": "9s"})) is None


@given(
    st.dictionaries(
        st.sampled_from(["retry-after", "retry-after-ms", "x-ratelimit-reset", "x-ratelimit-remaining", "date"]),
        st.text(max_size=20)
        | st.text("0123456789:-TZ+., GMT", max_size=30)
        | st.integers().map(str)
        | st.datetimes().map(str)
        | st.sampled_from([DATE, "Mon, 01 Jan 0001 00:00:00 +2359", "0001-01-01T00:00:00+23:59", "9999-12-31"]),
    )
)
def test_any_headers_give_a_wait_or_none(headers: dict[str, str]) -> None:
    seconds = retry_after(Head(status=429, headers=headers))
    assert seconds is None or 0 <= seconds < 1e12


@pytest.mark.parametrize("base_url", ["user:hush@host/v1", "https://user:hush@[bad"])
def test_a_bad_base_url_shows_no_password(base_url: str) -> None:
    with pytest.raises(SetupError, match="must be a URL with a scheme") as caught:
        split_base_url(base_url)
    assert "hush" not in str(caught.value)


# A key that a request knows -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("secret", "value", "expected"),
    [
        ("hush-hush", "hush-hush", "[redacted]"),
        ("hush-hush", "Token hush-hush", "[redacted]"),
        ("hush", "hush", "[redacted]"),
        ("hush", "Bearer hush", "[redacted]"),
        ("hush", "hushed", "hushed"),
        (None, "", ""),
        ("hush-hush", "other", "other"),
    ],
)
def test_a_key_is_known_by_its_value_too(secret: str | None, value: str, expected: str) -> None:
    http = HttpRequest(method="GET", path="/", headers={"x-mine": value}, secret=secret)
    assert http.redacted().headers == {"x-mine": expected}
    assert http.redacted().secret is None


@pytest.mark.parametrize(
    "url", ["box", "//box", "https://", "https://:1", "https://box:one", "https://box:0", "https://[::1"]
)
def test_a_base_url_that_is_not_whole_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(
        SetupError,
        match=r"^base_url must be a URL with a scheme and a host, such as https://host/path, got another text$",
    ):
        split_base_url(url)


@pytest.mark.parametrize("url", ["https://box?a=hush", "https://box/v1#hush"])
def test_a_base_url_has_neither_query_nor_fragment(url: str) -> None:
    with pytest.raises(SetupError, match=r"^base_url must not have a query or a fragment") as caught:
        split_base_url(url)
    assert "hush" not in str(caught.value)


def test_sent_secrets_are_in_headers_queries_and_the_origin() -> None:
    http = HttpRequest(
        method="POST",
        path="/v1?alt=sse&key=AIza%2B123456",
        origin="https://me:pass%20word@host",
        headers={
            "Authorization": "Basic bWU6b3Blbi1zZXNhbWU=",
            "proxy-authorization": "Basic ?",
            "cookie": "a=session-1; b=x",
            "content-type": "application/json",
        },
    )
    assert set(http.sent_secrets) == {
        "AIza%2B123456",
        "AIza+123456",
        "pass%20word",
        "pass word",
        "bWU6b3Blbi1zZXNhbWU=",
        "open-sesame",
        "a=session-1; b=x",
        "session-1",
    }


def test_a_user_without_a_password_is_a_secret() -> None:
    http = HttpRequest(method="GET", path="/", headers={"authorization": "Basic dG9rZW4tMTIzOg=="})
    assert "token-123" in http.sent_secrets


def test_a_password_that_is_not_base64_is_ignored() -> None:
    assert HttpRequest(method="GET", path="/", headers={"authorization": "Basic abcde"}).sent_secrets == []
