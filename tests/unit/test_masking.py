"""Secrets in command lines, settings, messages and arguments of calls reach no file; all the rest stays readable."""

from __future__ import annotations

import base64
import gzip
import json
import logging
import os
import re
import shlex
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import unified_profiler as up
from unified_profiler.config import OPTIONS_VARIABLE
from unified_profiler.masking import MASK, is_secret_name, mask_command, mask_text, mask_values
from unified_profiler.recording.api.call_texts import CallTexts, as_attributes

HIDDEN = "Zx9HiddenQ7"
LONG = f"{HIDDEN}a1B2c3D4e5F6g7H8i9J0k1L2m3N4"
AWS = "AKIAZX9HIDDENQ7AAAAA"

SECRET_COMMANDS = [
    f"train.py --api-key={HIDDEN} --epochs 3",
    f"train.py --api-key {HIDDEN}",
    f"train.py --api_key {HIDDEN}",
    f"train.py --apikey={HIDDEN}",
    f"train.py --token {HIDDEN} --lr 0.1",
    f"train.py --hf-token={HIDDEN}",
    f"train.py --use-auth-token {HIDDEN}",
    f"train.py --password '{HIDDEN} with spaces'",
    f"train.py '--password={HIDDEN} with spaces'",
    f"train.py --db.password {HIDDEN}",
    f"train.py --dbPassword {HIDDEN}",
    f"train.py --passphrase {HIDDEN}",
    f"train.py --client-secret {HIDDEN}",
    f"train.py --account-key {HIDDEN}==",
    f"train.py --api-keys {HIDDEN}1 {HIDDEN}2 --lr 0.1",
    f"train.py db.password={HIDDEN} +logger.wandb.api_key={HIDDEN} lr=0.1",
    f"env AWS_SECRET_ACCESS_KEY={HIDDEN} AWS_SESSION_TOKEN={HIDDEN} python train.py",
    f"docker run -e WANDB_API_KEY={HIDDEN} image train.py",
    f"train.py --data https://user:{HIDDEN}@host/data.tar",
    f"train.py --data https://user:p@ss:{HIDDEN}@host/data.tar",
    f"train.py --broker redis://:{HIDDEN}@host:6379/0",
    f"train.py --db 'postgresql+psycopg://me:{HIDDEN}@db.example/metrics?sslmode=require'",
    f"train.py --data 'https://a.blob.core.windows.net/c/x?sv=2022&sig={HIDDEN}%3D&se=2030'",
    f"train.py --data 'https://host/x?token={HIDDEN}&page=2'",
    f"train.py --data 'https://b.s3.amazonaws.com/x?X-Amz-Credential={HIDDEN}&X-Amz-Signature={HIDDEN}'",
    f"train.py --header 'Authorization: Bearer {HIDDEN}'",
    f"train.py --header 'Authorization: Basic {HIDDEN}=='",
    f"curl -H 'X-Api-Key: {HIDDEN}' -H 'PRIVATE-TOKEN: {HIDDEN}' https://host",
    f"curl -u me:{HIDDEN} https://host",
    f'train.py --config \'{{"hf_token": "{HIDDEN}", "epochs": 3}}\'',
    f'train.py --config \'{{"a": "{{\\\\"password\\\\": \\\\"{HIDDEN}\\\\"}}"}}\'',
    f"train.py --connect 'Server=h;User Id=me;Password={HIDDEN};Encrypt=yes'",
    f"train.py --connect 'DefaultEndpointsProtocol=https;AccountName=n;AccountKey={HIDDEN}==;EndpointSuffix=x'",
    f"bash -c 'train.py --token {HIDDEN} --lr 0.1'",
    f"train.py hf_{LONG}",
    f"train.py --note sk-{LONG}",
    f"train.py --note sk-ant-api03-{LONG}",
    f"git clone https://ghp_{LONG}@github.com/me/x",
    f"git clone https://{LONG}@host/x",
    f"train.py --note github_pat_{LONG}",
    f"train.py --note glpat-{LONG}",
    f"train.py --note {AWS}",
    f"train.py --note xoxb-123-{LONG}",
    f"train.py --note AIza{LONG}",
    f"train.py --note eyJhbGciOiJIUzI1NiJ9.{LONG}.{LONG}",
    f"train.py --note https://hooks.slack.com/services/T0/B0/{LONG}",
    f"train.py --note 'see -----BEGIN RSA PRIVATE KEY-----\n{LONG}\n-----END RSA PRIVATE KEY-----'",
]

READABLE_COMMANDS = [
    "train.py --tokenizer bert-base-uncased --max-tokens 512",
    "train.py --key-frames 3 --num-keys 4 --sort-key time",
    "train.py --pad-token '<pad>' --eos-token '</s>' --mask-token-id 4",
    "train.py --token-type word --token-dropout 0.1 --num-token 8",
    "train.py --password-file /run/secrets/db --secret-name training --token-file t.txt",
    "train.py --use-auth-token true --token $HF_TOKEN --password ''",
    "train.py --author me --bypass 3 --passes 2 --two-pass yes --keyboard us",
    "train.py lr=0.1 model.key=label optimizer.betas=[0.9,0.99] ++data.keys=[a,b]",
    "train.py --url https://host/path?page=2&size=10 --proxy http://proxy:8080",
    "train.py --repo git@github.com:me/project.git --remote ssh://git@host/project",
    "train.py --out s3://bucket/runs/token-classification/1",
    "train.py --model sk-learn --dataset hf_internal_testing/tiny --net ghost",
    "train.py --public-key id.pub --primary-key id --partition-key day",
    "train.py -p 8080 -u me -k 5",
    "-m package.train --attention-key-dim 64 --query-key-norm on",
    "train.py --time 12:30:00 --ratio 3:1 --when 'at 5: begin'",
    "train.py /data/secrets-of-the-sea/tokens.txt",
    "train.py PWD=/home/me --cookies-policy strict",
]


@pytest.mark.parametrize("line", SECRET_COMMANDS)
def test_a_secret_in_a_command_line_is_masked(line: str) -> None:
    masked = mask_command(shlex.split(line))
    assert HIDDEN.lower() not in " ".join(masked).lower()
    assert MASK in " ".join(masked)
    assert mask_command(masked) == masked


@pytest.mark.parametrize("line", READABLE_COMMANDS)
def test_a_command_line_without_secrets_stays_as_it_is(line: str) -> None:
    assert mask_command(shlex.split(line)) == tuple(shlex.split(line))


def test_only_the_secret_is_masked() -> None:
    words = shlex.split(f"train.py --api-key={HIDDEN} --data https://me:{HIDDEN}@host/x?token={HIDDEN}&page=2 --lr 0.1")
    assert " ".join(mask_command(words)) == (
        "train.py --api-key=*** --data https://me:***@host/x?token=***&page=2 --lr 0.1"
    )


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (f"login(token='{HIDDEN}', user='me') failed", "login(token='***', user='me') failed"),
        (f"401 for url: https://host/?api_key={HIDDEN}", "401 for url: https://host/?api_key=***"),
        (f"{{'Authorization': 'Bearer {HIDDEN}'}}", "{'Authorization': '***'}"),
        (f"Command '['a', '--token', '{HIDDEN}']' failed", "Command '['a', '--token', '***']' failed"),
        (f"password = 'it\\'s {HIDDEN}'; x", "password = '***'; x"),
        (f"password='{HIDDEN} is cut of...", "password='***'"),
        ("KeyError: 'token'", "KeyError: 'token'"),
        ("CUDA error: out of memory at key 3", "CUDA error: out of memory at key 3"),
    ],
)
def test_messages_are_masked(text: str, masked: str) -> None:
    assert mask_text(text) == masked


def test_values_are_masked_by_their_names_and_by_how_they_look() -> None:
    values = {"api_key": HIDDEN, "pin": 3, "credentials": {"a": HIDDEN}, "urls": [f"ftp://a:{HIDDEN}@h"], "token": None}
    assert mask_values(values) == {
        "api_key": MASK, "pin": 3, "credentials": MASK, "urls": ["ftp://a:***@h"], "token": None
    }  # fmt: skip


def test_a_very_long_text_is_looked_through_in_good_time() -> None:
    assert mask_text("a-" * 200_000 + "token") == "a-" * 200_000 + "token"
    assert mask_text("password='" + "x\\" * 200_000).startswith("password='***")


@pytest.mark.parametrize("name", ["HF_TOKEN", "x.secretKey", "PGPASSWORD", "smtp_pass", "proxy-auth", "authToken2"])
def test_names_of_secrets_are_known(name: str) -> None:
    assert is_secret_name(name)


# --- what is written ---------------------------------------------------------------------------------------------


def contents(folder: Path) -> str:
    """Return all texts of all files below a folder: tables, and what is packed inside of documents, too."""
    texts = []
    for file in (file for file in folder.rglob("*") if file.is_file()):
        texts += [file.name, file.read_bytes().decode("utf-8", "replace")]
        if file.suffix == ".parquet":
            table = pq.read_table(file)
            texts += [repr(table.schema.metadata), repr(table.to_pylist())]
        if file.suffix == ".arrow":
            texts += [repr(pa.ipc.open_stream(file.read_bytes()).read_all().to_pylist())]
        if file.suffix == ".gz":
            texts += [gzip.decompress(file.read_bytes()).decode()]
        for packed in re.findall(r"H4sI[A-Za-z0-9+/=]{20,}", texts[1]) if file.suffix == ".html" else ():
            texts += [zlib.decompressobj(31).decompress(base64.b64decode(packed)).decode("utf-8", "replace")]
    return "\n".join(texts)


SCRIPT = """
import json, logging, sys
import unified_profiler as up
logging.basicConfig(filename="log.txt", level=logging.DEBUG)

def broken(trace):
    raise RuntimeError("cannot upload: " + json.dumps(sys.argv) + " " + " ".join(sys.argv))

options = {"torch": {"api_key": SECRET}}
with up.Profiler(level=1, output_dir="own", on_trace_ready=broken, native_options=options) as prof:
    prof.step()
for name in ("trace.json", "trace.json.gz", "trace.parquet", "trace.csv", "report.html", "report.md"):
    up.write(up.read(prof.run.path), "written/" + name)
open("written/summary.json", "w").write(up.summarize(up.read(prof.run.path)).model_dump_json())
"""


@pytest.mark.parametrize("part", range(4))
def test_no_secret_of_a_real_command_line_reaches_a_run_a_report_a_log_or_an_export(part: int, tmp_path: Path) -> None:
    words = [word for line in SECRET_COMMANDS[part::4] for word in shlex.split(line)]
    (tmp_path / "train.py").write_text(f"SECRET = {LONG!r}\n{SCRIPT}")
    done = subprocess.run(
        [sys.executable, "-m", "unified_profiler", "run", "--level", "1", "train.py", "--", *words],
        cwd=tmp_path,
        env={**os.environ, "SERVICE_TOKEN": LONG},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (tmp_path / "train.py").unlink()
    (tmp_path / "printed.txt").write_text(done.stdout + done.stderr)
    assert {file.parts[0] for file in (path.relative_to(tmp_path) for path in tmp_path.rglob("*"))} >= {
        "own", "profile", "written", "log.txt"
    }  # fmt: skip
    text = contents(tmp_path)
    assert "cannot upload" in text
    assert "train.py" in text
    assert HIDDEN.lower() not in text.lower()


def test_the_check_finds_a_secret_wherever_it_is_written(tmp_path: Path) -> None:
    with up.Profiler(level=1, output_dir=tmp_path / "run") as prof, prof.region(f"region {HIDDEN}"):
        prof.step()
    for name in ("run.parquet", "run.json.gz", "run.html"):
        folder = tmp_path / name
        up.write(prof.traces[0], folder / name)
        assert HIDDEN in contents(folder)


def test_an_argument_that_is_no_unicode_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", "\udcff"])
    with up.Profiler(level=1, output_dir=tmp_path) as prof:
        prof.step()
    assert prof.failures == ()
    assert up.read(tmp_path).manifests[0].command == ("train.py", "\\udcff")


def test_settings_that_json_cannot_hold_are_written(tmp_path: Path) -> None:
    options: dict[str, Any] = {"torch": {"a": float("nan"), "b": {("tuple",): "\ud800"}}}
    options["torch"]["b"]["self"] = options["torch"]["b"]
    with up.Profiler(level=1, output_dir=tmp_path, native_options=options) as prof:
        prof.step()
    assert prof.failures == ()
    assert up.read(tmp_path).manifests[0].settings["native_options"]["torch"]["a"] == "nan"


@pytest.mark.parametrize("how", ["keyword", "variable", "file"])
def test_no_command_line_is_recorded_if_that_is_wished(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/home/me/train.py", HIDDEN])
    monkeypatch.chdir(tmp_path)
    options: dict[str, Any] = {"record_command": False} if how == "keyword" else {}
    if how == "variable":
        monkeypatch.setenv(OPTIONS_VARIABLE, json.dumps({"record_command": False}))
    if how == "file":
        (tmp_path / "pyproject.toml").write_text("[tool.unified-profiler]\nrecord-command = false\n")
    with up.Profiler(level=1, output_dir=tmp_path / "run", **options) as prof:
        prof.step()
    up.write(up.read(tmp_path / "run"), tmp_path / "run" / "report.html")
    assert up.read(tmp_path / "run").manifests[0].command == ()
    assert HIDDEN not in contents(tmp_path / "run")


def test_run_records_no_command_line_if_that_is_wished(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    command = [
        sys.executable,
        "-m",
        "unified_profiler",
        "run",
        "--level",
        "1",
        "--no-record-command",
        "train.py",
        HIDDEN,
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert up.read(tmp_path / "profile").manifests[0].command == ()
    assert HIDDEN not in contents(tmp_path)


def test_failures_are_masked_in_the_manifest_and_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def broken(trace: up.Trace) -> None:
        msg = f"upload(token='{HIDDEN}')"
        raise RuntimeError(msg)

    with caplog.at_level(logging.DEBUG), up.Profiler(level=1, output_dir=tmp_path, on_trace_ready=broken) as prof:
        prof.step()
    assert [failure.error for failure in prof.failures] == ["RuntimeError: upload(token='***')"]
    assert HIDDEN not in caplog.text + contents(tmp_path)


def test_a_failure_that_repeats_a_secret_of_the_process_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", "--db-password", HIDDEN, f"--data=ftp://a:{LONG}@h", "--lr", "0.125"])
    monkeypatch.setenv("SERVICE_TOKEN", "Another4")

    def broken(trace: up.Trace) -> None:
        msg = f"no access to 0.125 with {HIDDEN}, {LONG} or Another4"
        raise PermissionError(msg)

    with up.Profiler(level=1, on_trace_ready=broken) as prof:
        prof.step()
    assert [failure.error for failure in prof.failures] == ["PermissionError: no access to 0.125 with ***, *** or ***"]


def test_a_run_read_from_a_url_is_shown_without_its_password() -> None:
    run = up.Run(traces=(), url=f"s3a://key:{HIDDEN}@bucket/run")
    assert "s3a://key:***@bucket/run" in repr(run)
    assert HIDDEN not in run._repr_html_()


def test_a_wrong_variable_is_told_without_its_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OPTIONS_VARIABLE, f'{{"native_options": {{"torch": {{"api_key": "{HIDDEN}"}}}}, oops')
    with pytest.raises(up.UnifiedProfilerError) as caught:
        up.Profiler()
    assert HIDDEN not in str(caught.value)


# --- arguments of API calls --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((f"hf_{LONG}",), {}),
        ((f"https://someone-with-a-long-name:{LONG}{LONG}@example.org/x",), {}),
        ((), {"api_key": HIDDEN}),
        ((), {"hf_token": HIDDEN}),
        (([f"sk-{LONG}"],), {}),
    ],
)
def test_a_secret_given_to_an_api_is_masked(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    text = as_attributes(CallTexts({}).of(args, kwargs))
    assert text is not None
    assert HIDDEN not in text
    assert MASK in text


def test_other_arguments_of_an_api_stay_as_they_are() -> None:
    text = as_attributes(CallTexts({}).of(("bilinear", 3), {"pad_token": "<pad>", "token": None, "mode": "reflect"}))
    assert json.loads(text or "") == {
        "args": ["'bilinear'", "3"],
        "kwargs": {"pad_token": "'<pad>'", "token": "None", "mode": "'reflect'"},
    }


# --- who may read what is written ----------------------------------------------------------------------------------

WRITING = """
import os, pathlib, stat, sys, tempfile
os.umask(int(sys.argv[1], 8))
import unified_profiler as up
from unified_profiler.testing import FakeBackend

backend, before = FakeBackend(), set(os.listdir(tempfile.gettempdir()))
for deliver in ("immediate", "deferred"):
    with up.Profiler(backend=backend, output_dir="run", deliver=deliver) as prof:
        backend.op("fake::op")
        made = set(os.listdir(tempfile.gettempdir())) - before
        modes = {stat.S_IMODE(os.stat(os.path.join(tempfile.gettempdir(), name)).st_mode) for name in made}
        assert modes == ({0o700} if deliver == "immediate" else set()), (made, modes)
    for name in ("t.json", "t.json.gz", "t.parquet", "t.csv", "r.html", "r.md"):
        up.write(prof.traces[0], "written/" + deliver + name)
"""


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077, 0o002])
def test_files_follow_the_umask_and_temporary_directories_are_private(mask: int, tmp_path: Path) -> None:
    (tmp_path / "temporary").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", WRITING, f"{mask:o}"],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path / "temporary")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    written = [*(tmp_path / "run").rglob("*"), *(tmp_path / "written").rglob("*")]
    assert len([path for path in written if path.is_file()]) >= 15
    modes = {path: path.stat().st_mode & 0o777 for path in written}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o666 & ~mask}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o777 & ~mask}
