"""An S3 server on loopback for tests, which tools/s3-servers installs."""

from __future__ import annotations

import http.client
import json
import os
import random
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

BUCKET, KEY, SECRET = "lmc-test", "lmc-test-key", "lmc-test-secret"
# The shell holds the pipe of the test: when the test ends, however it does, the read ends, and the
# server with it.
_KEEPER = ["sh", "-c", '"$@" & pid=$!; read -r _; kill -9 $pid', "sh"]
_OWN = Path(__file__).parents[3] / "target" / "s3-servers"


def _free_ports(count: int) -> list[int]:
    """Ports that nobody has.

    They are below those that the system gives to connections: one of these could be taken again
    before the server asks for it.
    """
    free: list[int] = []
    for port in random.sample(range(12_000, 32_000), 1000):
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
        free.append(port)
        if len(free) == count:
            return free
    raise RuntimeError("no free ports")


def _status(port: int, method: str, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request(method, path)
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


@contextmanager
def seaweed(folder: Path) -> Iterator[dict[str, str]]:
    """Runs SeaweedFS with its files in a folder; gives the variables that lead to it."""
    program = Path(os.environ.get("LMC_S3_SERVERS", _OWN)) / "bin" / "weed"
    if not program.is_file():
        pytest.skip("s3: no weed here: tools/s3-servers installs it")
    credentials = [{"accessKey": KEY, "secretKey": SECRET}]
    actions = ["Read", "Write", "List", "Tagging"]
    user = {"name": "test", "credentials": credentials, "actions": actions}
    (folder / "data").mkdir(parents=True)
    (folder / "s3.json").write_text(json.dumps({"identities": [user]}))
    names = ["s3.port", "filer.port", "master.port", "volume.port"]
    names += [f"{name}.grpc" for name in names]
    ports = dict(zip(names, _free_ports(len(names)), strict=True))
    command = [str(program), "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3"]
    command += [f"-dir={folder}/data", f"-s3.config={folder}/s3.json", "-volume.max=100"]
    command += ["-master.volumeSizeLimitMB=64", "-volume.minFreeSpace=1"]
    command += ["-s3.port.iceberg=0", "-s3.port.lance=0"]
    command += [f"-{name}={port}" for name, port in ports.items()]
    with open(folder / "log", "wb") as log:
        server = subprocess.Popen(
            [*_KEEPER, *command], cwd=folder, stdin=subprocess.PIPE, stdout=log, stderr=log
        )
    try:
        deadline = time.monotonic() + 60
        while _status(ports["s3.port"], "GET", f"/{BUCKET}?list-type=2") == 0:
            assert time.monotonic() < deadline, (folder / "log").read_text()[-2000:]
            time.sleep(0.1)
        # Its buckets are folders of its own file system.
        assert _status(ports["filer.port"], "POST", f"/buckets/{BUCKET}/") == 201
        yield {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{ports['s3.port']}",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "no_proxy": "127.0.0.1",
        }
    finally:
        server.communicate()
