"""Batches of providers: every row gets its result, whatever becomes of the job."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import SetupError
from dragoman.io.batch import provider as provider_module
from dragoman.io.batch.jobs import JobJournal, JobRecord
from dragoman.io.batch.provider import BatchOptions, ProviderBatch
from dragoman.io.batch.row_sender import BatchSettings, RowOutcome, RowSender
from dragoman.wires.common import s3_batches
from tests.support.batch_provider import BatchProvider, batch_provider

KINDS = {
    "openai": "/v1",
    "openai-responses": "/v1",
    "azure": "/openai/v1",
    "azure-responses": "/openai/v1",
    "mistral": "/v1",
    "anthropic": "/v1",
    "google": "/v1beta",
    "bedrock": "",
    "bedrock-anthropic": "",
}
AWS = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
STORAGE = {"uri": "s3://tides/rows", "role": "arn:aws:iam::123456789012:role/batches"}
ROWS = [json.dumps({"id": number, "prompt": f"Is it {number}?"}).encode() for number in range(6)]
TEXTS = {number: f"You said “Is it {number}?”, which is 3 words." for number in range(6)}


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchProvider]:
    monkeypatch.setattr(s3_batches, "MIN_ROWS", 1)
    with batch_provider() as running:
        running.is_released.set()
        yield running


class Run:
    """One run over the rows, with what it wrote."""

    def __init__(
        self,
        provider: BatchProvider,
        kind: str = "openai",
        output: Path | None = None,
        access: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.rows: dict[int, Any] = {}
        self.notes: list[str] = []
        self.states: list[str] = []
        self.is_waiting = asyncio.Event()
        url = f"{provider.url}{KINDS[kind]}"
        if access is None:
            access = {"batch_storage": STORAGE} if kind.startswith("bedrock") else {"api_key": "k"}
        tables = {"providers": {"box": {"like": kind, "base_url": url, **access}}}
        settings = BatchSettings(spec="box/m", fallback="box/m", tables=tables, env=AWS, retries=1)
        self.journal = JobJournal(output)
        worker = RowSender(settings)
        made = BatchOptions(poll=0.01, note=self.notes.append, status=self.see, **options)
        self.batch = ProviderBatch(worker, self.journal, self.emit, made)

    def see(self, state: str) -> None:
        self.states.append(state)
        self.is_waiting.set()

    async def stop_while_it_waits(self) -> None:
        """Begin, and end as by a kill when the job is at the provider."""
        work = asyncio.create_task(self.batch.run(lambda: ROWS))
        await self.is_waiting.wait()
        work.cancel()
        await asyncio.wait([work])

    def emit(self, outcome: RowOutcome) -> None:
        row = json.loads(outcome.line)
        assert row["id"] not in self.rows, "a row has one result"
        self.rows[row["id"]] = row

    def __call__(self, *, cancel: bool = False, rows: list[bytes] = ROWS) -> "Run":
        read = lambda: [row for row in rows if json.loads(row)["id"] not in self.rows]  # noqa: E731 - short
        asyncio.run((self.batch.cancel if cancel else self.batch.run)(read))
        return self

    @property
    def texts(self) -> dict[int, str]:
        return {id: row["text"] for id, row in self.rows.items() if "text" in row}


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_answers_every_row(provider: BatchProvider, kind: str) -> None:
    run = Run(provider, kind)()
    assert run.texts == TEXTS
    assert len(provider.jobs) == 1
    assert provider.calls == []
    assert run.notes == []
    assert run.states


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fate", ["failed", "expired"])
def test_rows_that_were_not_answered_are_sent_one_by_one(provider: BatchProvider, kind: str, fate: str) -> None:
    provider.fate = lambda text: fate if "2" in text or "5" in text else "answered"
    run = Run(provider, kind)()
    assert run.texts == TEXTS
    assert sorted(provider.calls) == ["Is it 2?", "Is it 5?"]
    assert any("2 rows of the batch sent one by one" in note for note in run.notes)


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_that_is_refused_loses_no_row(provider: BatchProvider, kind: str) -> None:
    provider.rejects = True
    run = Run(provider, kind)()
    assert run.texts == TEXTS
    assert len(provider.calls) == 6
    assert any("batches are not enabled" in note for note in run.notes)


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_that_fails_loses_no_row(provider: BatchProvider, kind: str) -> None:
    provider.fails_job = True
    run = Run(provider, kind)()
    assert run.texts == TEXTS
    assert len(provider.calls) == 6


def test_without_fallback_a_row_that_was_not_answered_is_an_error_row(provider: BatchProvider) -> None:
    provider.fate = lambda text: "expired" if "3" in text else "answered"
    run = Run(provider, fallback=False)()
    assert provider.calls == []
    assert {**TEXTS, **run.texts} == TEXTS
    assert "box/m: not answered by the batch: rows failed or expired" in run.rows[3]["error"]["message"]


@pytest.mark.parametrize("kind", KINDS)
def test_without_fallback_the_row_has_the_error_of_the_provider(provider: BatchProvider, kind: str) -> None:
    provider.fate = lambda text: "failed" if "3" in text else "answered"
    run = Run(provider, kind, fallback=False)()
    reason = "failed" if kind == "google" else "no"
    assert run.rows[3]["error"]["message"] == f"box/m: not answered by the batch: {reason}"


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_is_found_again_if_the_reply_was_lost(provider: BatchProvider, kind: str) -> None:
    provider.drops_reply = True
    run = Run(provider, kind)()
    assert run.texts == TEXTS
    assert len(provider.jobs) == 1, "the rows are paid once"
    assert provider.calls == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_ended_early_is_continued(provider: BatchProvider, kind: str, tmp_path: Path) -> None:
    """As after a kill: the journal has the job, the output has no row."""
    provider.is_released.clear()

    asyncio.run(Run(provider, kind, tmp_path / "out").stop_while_it_waits())
    provider.is_released.set()
    run = Run(provider, kind, tmp_path / "out")()
    assert run.texts == TEXTS
    assert len(provider.jobs) == 1
    assert provider.calls == []
    assert not (tmp_path / "out.jobs").exists()


@pytest.mark.parametrize("was_created", [True, False])
def test_a_job_whose_id_was_not_written_is_found_or_made(
    provider: BatchProvider, tmp_path: Path, *, was_created: bool
) -> None:
    if was_created:
        Run(provider, "openai")()
        token = provider.jobs["job0"]["body"]["metadata"]["dragoman"]
    else:
        token = "0123456789abcdef"
    JobJournal(tmp_path / "out").add(JobRecord(token=token, target="box/m", rows=tuple(range(6)), started=1.0))
    run = Run(provider, "openai", tmp_path / "out")()
    assert run.texts == TEXTS
    assert len(provider.jobs) == 1
    assert provider.calls == []


def test_rows_that_the_output_has_are_not_sent_again(provider: BatchProvider, tmp_path: Path) -> None:
    """As after a kill while the results were written."""
    Run(provider)()
    token = provider.jobs["job0"]["body"]["metadata"]["dragoman"]
    record = JobRecord(token=token, target="box/m", rows=tuple(range(6)), started=1.0, id="job0")
    JobJournal(tmp_path / "out").add(record)
    run = Run(provider, "openai", tmp_path / "out")(rows=ROWS[4:])
    assert run.texts == {4: TEXTS[4], 5: TEXTS[5]}


def test_a_job_that_the_provider_forgot_loses_no_row(provider: BatchProvider, tmp_path: Path) -> None:
    JobJournal(tmp_path / "out").add(JobRecord(token="t", target="box/m", rows=(0, 1), started=1.0, id="gone"))
    run = Run(provider, "openai", tmp_path / "out")()
    assert run.texts == TEXTS
    assert sorted(provider.calls) == ["Is it 0?", "Is it 1?"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_cancelled_batch_gives_what_it_has(provider: BatchProvider, kind: str, tmp_path: Path) -> None:
    provider.is_released.clear()
    asyncio.run(Run(provider, kind, tmp_path / "out").stop_while_it_waits())
    run = Run(provider, kind, tmp_path / "out")(cancel=True)
    assert run.texts == {number: TEXTS[number] for number in range(3)}
    assert JobJournal(tmp_path / "out").open_jobs() == []
    assert provider.calls == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_that_has_ended_before_it_is_cancelled_gives_all(
    provider: BatchProvider, kind: str, tmp_path: Path
) -> None:
    """The provider refuses to cancel it."""
    provider.is_released.clear()
    asyncio.run(Run(provider, kind, tmp_path / "out").stop_while_it_waits())
    provider.is_released.set()
    run = Run(provider, kind, tmp_path / "out")(cancel=True)
    assert run.texts == TEXTS
    assert JobJournal(tmp_path / "out").open_jobs() == []


def test_a_batch_that_is_gone_can_be_cancelled(provider: BatchProvider, tmp_path: Path) -> None:
    JobJournal(tmp_path / "out").add(JobRecord(token="t", target="box/m", rows=(0,), started=1.0, id="gone"))
    assert Run(provider, "openai", tmp_path / "out")(cancel=True).rows == {}
    assert JobJournal(tmp_path / "out").open_jobs() == []


@pytest.mark.parametrize("fetch", [503, 200])
def test_a_batch_that_cannot_be_cancelled_is_kept(provider: BatchProvider, tmp_path: Path, fetch: int) -> None:
    provider.is_released.clear()
    asyncio.run(Run(provider, "openai", tmp_path / "out").stop_while_it_waits())
    provider.faults = {"POST": (403, b"{}")} if fetch == 200 else {"POST": (403, b"{}"), "GET": (fetch, b"{}")}
    with pytest.raises(SetupError, match="the batch job0 goes on at the provider"):
        Run(provider, "openai", tmp_path / "out")(cancel=True)
    assert [record.id for record in JobJournal(tmp_path / "out").open_jobs()] == ["job0"]


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ({"batch_storage": None}, "set AWS_BEDROCK_BATCH_S3_URI and AWS_BEDROCK_BATCH_ROLE_ARN"),
        ({"api_key": "k", "batch_storage": STORAGE}, "got a bearer token, which S3 does not take"),
    ],
)
def test_without_its_storage_no_row_of_bedrock_is_lost(
    provider: BatchProvider, setting: dict[str, Any], reason: str
) -> None:
    provider.checks_signatures = False
    run = Run(provider, "bedrock", access=setting)()
    assert run.texts == TEXTS
    assert (len(provider.jobs), len(provider.calls)) == (0, 6)
    assert any(reason in note for note in run.notes)


def test_few_rows_of_bedrock_are_sent_one_by_one(provider: BatchProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_batches, "MIN_ROWS", 100)
    run = Run(provider, "bedrock")()
    assert run.texts == TEXTS
    assert run.notes == [
        "box/m: the batch was refused: box: a batch must have at least 100 rows, got 6; 6 rows of the batch sent one by one"
    ]


def test_results_that_are_not_in_the_bucket_lose_no_row(provider: BatchProvider) -> None:
    provider.loses_results = True
    assert Run(provider, "bedrock")().texts == TEXTS
    assert len(provider.calls) == 6


def test_many_rows_are_several_jobs(provider: BatchProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_module, "MAX_ROWS", 2)
    assert Run(provider)().texts == TEXTS
    assert len(provider.jobs) == 3


def test_wrong_rows_and_rows_of_other_targets_are_sent_one_by_one(provider: BatchProvider) -> None:
    rows = [*ROWS, b'{"id": 7, "prompt": 3}']
    run = Run(provider)(rows=rows)
    assert run.texts == TEXTS
    assert "prompt must be" in run.rows[7]["error"]["message"]
    assert any("cannot be in a batch" in note for note in run.notes)


def test_a_provider_that_does_not_answer_keeps_the_job(provider: BatchProvider, tmp_path: Path) -> None:
    record = JobRecord(token="t", target="box/m", rows=(0,), started=1.0, id="job0")
    JobJournal(tmp_path / "out").add(record)
    run = Run(provider, "openai", tmp_path / "out")
    provider.reply = lambda *_: (503, b"{}")  # type: ignore[method-assign] # a fault of the server
    with pytest.raises(SetupError, match="the batch job0 goes on at the provider: run it again"):
        run(rows=ROWS[:1])
    assert JobJournal(tmp_path / "out").open_jobs() == [record]


def test_a_record_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    journal = JobJournal(tmp_path / "out")
    journal.add(JobRecord(token="a", target="t", rows=(1, "b"), started=1.0))
    path = tmp_path / "out.jobs"
    path.write_bytes(path.read_bytes() + b'{"token":"a","id":"jo')
    again = JobJournal(tmp_path / "out")
    assert [record.id for record in again.open_jobs()] == [None]
    again.add(JobRecord(token="a", id="job"))
    assert JobJournal(tmp_path / "out").open_jobs()[0].rows == (1, "b")
    path.write_bytes(b"wrong\n" + path.read_bytes())
    with pytest.raises(SetupError, match="line 1: not a record"):
        JobJournal(tmp_path / "out")
