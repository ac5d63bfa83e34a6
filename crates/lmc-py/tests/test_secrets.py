"""Who reads errors and logs learns no secret of a store's URL, and no name steers a terminal."""

from __future__ import annotations

import logging
import pickle
import socket
from pathlib import Path

import lmckpt
import pytest
import torch
from lmckpt import Store, errors
from lmckpt.errors import printable

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
    """A server that does not answer is told of without the secrets of both URLs."""
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
    ):
        with pytest.raises(errors.LmcError) as found:
            Store(url)
        check(str(found.value))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store whose URL has a query: it is a directory, so that no server is needed."""
    return Store(f"file://{tmp_path}/store?X-Amz-Signature=signed-by-me", create=True)


def test_stores_show_no_secrets(store: Store, tmp_path: Path) -> None:
    """The text of a store has none, and the store can still be pickled and opened."""
    check(repr(store))
    assert repr(store) == f"Store('file://{tmp_path}/store')"
    store.save({"a": 1})
    assert pickle.loads(pickle.dumps(store)).load() == {"a": 1}
    missing = f"file://{tmp_path}/none?X-Amz-Signature=signed-by-me"
    with pytest.raises(errors.NoStoreError) as found:
        Store(missing)
    check(str(found.value))


def test_plugins_show_no_secrets(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """Errors, logs and what torch is told of have none."""
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
    assert any("\\u202e" in line for line in said), said
    assert all(line.isprintable() for line in said), said
    assert printable("a\x1b[2J\nb\x9b") == "a\\x1b[2J\\nb\\x9b"


def test_the_command_shows_no_secrets(unreachable, capfd: pytest.CaptureFixture[str]) -> None:
    """The command of the package is the same program."""
    assert lmckpt._lmckpt.main(["lmc", "log", "--store", USABLE_URL]) == 1
    said = capfd.readouterr()
    check(said.out + said.err)
    assert "s3://bucket/runs" in said.err
