"""Who reads errors and logs learns no secret of a store's URL, and no name steers a terminal."""

from __future__ import annotations

import logging
import pickle
import socket
from pathlib import Path

import lmckpt
import lmckpt.numpy
import lmckpt.torch
import pytest
import torch
from lmckpt import Store, errors
from lmckpt._lmckpt import printable

SECRETS = ("TheKeyName", "hunter2", "signed-by-me", "X-Amz-Signature")
URL = "s3://TheKeyName:hunter2@bucket/runs?X-Amz-Signature=signed-by-me"
# One that is not refused at once.
USABLE_URL = "s3://bucket/runs?X-Amz-Signature=signed-by-me"


def check(text: str) -> None:
    for secret in SECRETS:
        assert secret not in text, text


@pytest.fixture
def unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server on loopback where nobody listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://TheKeyName:hunter2@127.0.0.1:{port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "TheKeyName")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("LMC_RETRIES", "0")
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.mark.parametrize("make", [Store, Store.open, Store.init, lambda u: Store(u, create=True)])
def test_errors_show_no_secrets(make, unreachable) -> None:
    """A server that does not answer is reported without the secrets of either URL."""
    with pytest.raises(errors.StorageError) as found:
        make(USABLE_URL)
    check(str(found.value))
    check(repr(found.value))
    assert "s3://bucket/runs" in str(found.value)


@pytest.mark.parametrize("make", [Store, Store.open, Store.init, lambda u: Store(u, create=True)])
def test_a_user_or_a_password_is_refused(make, unreachable) -> None:
    """It would not be used, and could be read by others; the error does not repeat it."""
    for url in (URL, "s3://TheKeyName@bucket", "gs://TheKeyName:hunter2@bucket"):
        with pytest.raises(errors.InvalidError, match="no user and no password") as found:
            make(url)
        check(str(found.value))


def test_urls_that_make_no_sense_show_no_secrets() -> None:
    """A URL that is refused is not repeated whole."""
    for url in (
        "nosuch://TheKeyName:hunter2@bucket?X-Amz-Signature=signed-by-me",
        "s3://TheKeyName:hunter2@bu cket",
        "s3://TheKeyName:hunter2@",
        " s3://TheKeyName:hunter2@bucket",
        "s3://TheKeyName:hunter2@bucket\n",
        "s3:\t//TheKeyName:hunter2@bucket",
        "s3:/\r\n/TheKeyName:hunter2@bucket",
        "\0s3://TheKeyName:hunter2@bucket",
        "\u200bs3://TheKeyName:hunter2@bucket",
        "s3:/TheKeyName:hunter2@bucket",
        "s3:TheKeyName:hunter2@bucket",
        "s3://TheKeyName:hunter2@bucket\ud800",
        "s3://TheKeyName:hunter2@bucket\udcff",
    ):
        for make in (Store, Store.init, lambda url: Store(url, create=True)):
            with pytest.raises(errors.LmcError) as found:
                make(url)
            check(str(found.value))
            check(repr(found.value))
    assert not [path for path in Path().iterdir() if "s3" in path.name]


def test_urls_that_are_taken_for_files_show_no_secrets(tmp_path: Path) -> None:
    """A URL given where a file or a snapshot is expected is not repeated whole."""
    store = Store(tmp_path / "store", create=True)
    for url in (URL, f" {URL}", URL.replace("//", "\t//"), f"{URL}\0"):
        for call in (
            lambda url: lmckpt.decompress_file(url, tmp_path / "x"),
            lambda url: lmckpt.compress_file(url),
            lambda url: lmckpt.safe_open(url, "pt"),
            lambda url: lmckpt.torch.load_file(url),
            lambda url: lmckpt.numpy.load_file(url),
            lambda url: store.save(url),
            lambda url: store.load(url),
            lambda url: store.get(url),
        ):
            with pytest.raises(errors.LmcError) as found:
                call(url)
            check(str(found.value))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store in a directory, so that no server is needed."""
    return Store(f"file://{tmp_path}/store", create=True)


def test_stores_show_no_secrets(store: Store, tmp_path: Path) -> None:
    """The text of a store has none, and the store can still be pickled and opened."""
    check(repr(store))
    assert repr(store) == f"Store('file://{tmp_path}/store')"
    store.save({"a": 1})
    assert pickle.loads(pickle.dumps(store)).load() == {"a": 1}
    query = f"file://{tmp_path}/none?X-Amz-Signature=signed-by-me"
    for url in (query, "s3//signed-by-me:x@bucket"):
        for create in (False, True):
            with pytest.raises(errors.LmcError) as found:
                Store(url, create=create)
            check(str(found.value))
    assert [each.name for each in tmp_path.iterdir()] == ["store"]


def test_plugins_show_no_secrets(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """Errors, logs and what torch gets to see contain none."""
    from lmckpt.dcp import StoreReader, StoreWriter
    from lmckpt.fs import LmcFileSystem

    files = LmcFileSystem(store)
    store.save({"a": torch.ones(2)})
    for path in ("none@3/x", "latest/none"):
        with pytest.raises(errors.NotFoundError) as found:
            files.info(path)
        check(str(found.value))
    check(str(StoreWriter(store, "r").storage_meta()))
    with caplog.at_level(logging.DEBUG), pytest.raises(errors.LmcError):
        StoreReader(store, "none@3").read_metadata()
    assert "cannot load from" in caplog.text
    check(caplog.text)


def test_logs_steer_no_terminal(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """A name in a log is shown and not obeyed."""
    evil = "r\u202e\u2066\u061c\ufeff"
    with caplog.at_level(logging.DEBUG):
        future = store.save_async({"a": 1}, parent=f"{evil}@7")
        assert isinstance(future.exception(), errors.LmcError)
    said = [record.getMessage() for record in caplog.records]
    assert any("\\u{202e}" in line for line in said), said
    assert all(line.isprintable() for line in said), said
    assert printable("a\x1b[2J\nb\x9b") == "a\\x1b[2J\\nb\\u{9b}"
    assert printable("\udce9\u3164") == "\\udce9\\u{3164}"


EVIL = "\x1b]0;x\x07\x9b2J\u202e\u2066\u200b\u3164\n\r"


def test_errors_steer_no_terminal(store: Store, tmp_path: Path) -> None:
    """Names of files, tensors, runs and bases in an error are shown and not obeyed."""
    path = tmp_path / f"a{EVIL}.lmc"
    old, new = {"w": torch.zeros(9)}, {f"w{EVIL}": torch.ones(9)}
    lmckpt.torch.save_file(old, tmp_path / f"base{EVIL}.lmc")
    lmckpt.torch.save_file(new, path)
    (tmp_path / "cut.lmc").write_bytes(path.read_bytes()[:-1])
    broken = tmp_path / f"cut{EVIL}.lmc"
    (tmp_path / "cut.lmc").rename(broken)
    store.save({"x": 1})
    opened = lmckpt.safe_open(path, "pt")
    calls = [
        lambda: lmckpt.torch.load_file(tmp_path / f"none{EVIL}"),
        lambda: lmckpt.torch.load_file(broken),
        lambda: lmckpt.safe_open(broken, "pt"),
        lambda: lmckpt.decompress_file(broken, tmp_path / "out"),
        lambda: lmckpt.compress(b"", level=EVIL),
        lambda: opened.get_tensor(f"none{EVIL}"),
        lambda: store.load(f"{EVIL}@3"),
        lambda: store.load("latest", into={"y": EVIL, EVIL: 3}),
        lambda: store.save({EVIL: {EVIL: object()}}),
        lambda: store.save({"x": 1}, run=EVIL),
        lambda: store.tag("latest", EVIL),
        lambda: store.read_file("latest", EVIL),
        lambda: Store(tmp_path / EVIL),
        lambda: Store(f"s3://{EVIL}"),
    ]
    for call in calls:
        with pytest.raises(errors.LmcError) as found:
            call()
        said = str(found.value)
        assert not set(said) & set(EVIL[:-2].replace("]0;x", "").replace("2J", "")), said
        assert "\n" not in said and "\r" not in said
        # It stays so when it is sent to another process, or quoted in another error.
        assert str(pickle.loads(pickle.dumps(found.value))) == said
        assert str(errors.LmcError(said)) == said


def test_the_command_shows_no_secrets(unreachable, capfd: pytest.CaptureFixture[str]) -> None:
    """The command of the package is the same program."""
    assert lmckpt._lmckpt.main(["lmc", "log", "--store", USABLE_URL]) == 1
    said = capfd.readouterr()
    check(said.out + said.err)
    assert "s3://bucket/runs" in said.err
