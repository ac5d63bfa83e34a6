"""What the system or the caller refuses is worked around, or an exception like any other."""

import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import lmckpt
import lmckpt.numpy
import numpy as np
import pytest
from lmckpt.errors import LimitError

# Work on 4 MB, which every call does on threads of its own where it can.
WORK = """
    import os, resource, sys
    import numpy as np
    import lmckpt, lmckpt.numpy
    folder, threads = sys.argv[1], int(sys.argv[2])
    # Numbers that are close to others, so that they are coded and not stored.
    values = np.arange(1_000_000, dtype=np.float32)
    resource.setrlimit(resource.RLIMIT_NPROC, (threads, threads))
    for count in (0, 1, 4):
        coded = lmckpt.compress(values, threads=count)
        assert lmckpt.decompress(coded, threads=count) == values.tobytes()
        lmckpt.numpy.save_file({"w": values}, f"{folder}/w.lmc")
        assert (lmckpt.numpy.load_file(f"{folder}/w.lmc", threads=count)["w"] == values).all()
        store = lmckpt.Store(f"{folder}/store{count}", create=True)
        store.save({"w": values}, threads=count)
        assert (store.load()["w"] == values).all()
    print("done")
"""


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_calls_work_with_as_few_threads_as_there_are(threads: int) -> None:
    """Every call does its work where threads are refused, with any number of them or none."""
    folder = tempfile.mkdtemp()  # Where another user may write; that of pytest is closed to others.
    Path(folder).chmod(0o777)
    command = [sys.executable, "-c", textwrap.dedent(WORK), folder, str(threads)]
    if os.getuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip(
                "tool: root is not limited, and there is no setpriv to become somebody else"
            )
        user = str(1_100_000_000 + os.getpid() % 1_000_000 * 10 + threads)
        command = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", *command]
    # Threads that numpy starts when it is loaded are not what is tested.
    single = {name: "1" for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    done = subprocess.run(
        command, env=os.environ | single, capture_output=True, text=True, check=False
    )
    shutil.rmtree(folder)
    if "Permission denied" in done.stderr or "setpriv:" in done.stderr:
        pytest.skip(f"root: another user cannot run this: {done.stderr}")
    assert done.returncode == 0 and "PanicException" not in done.stderr, done.stderr
    assert done.stdout == "done\n"


def test_max_size_refuses_what_announces_more(tmp_path: Path) -> None:
    """Everything that opens a file or restores one refuses an original that is too large."""
    path = tmp_path / "w.lmc"
    lmckpt.numpy.save_file({"w": np.zeros(10_000, np.float32)}, path)
    size = len(lmckpt.decompress(path.read_bytes()))
    calls = [
        lambda most: lmckpt.decompress(path.read_bytes(), max_size=most),
        lambda most: lmckpt.decompress_file(path, tmp_path / "out", max_size=most),
        lambda most: lmckpt.numpy.load(path.read_bytes(), max_size=most),
        lambda most: lmckpt.numpy.load_file(path, max_size=most),
        lambda most: lmckpt.safe_open(path, "np", max_size=most),
    ]
    store = lmckpt.Store(tmp_path / "store", create=True)
    store.save({"w": np.zeros(10, np.float32)})
    for call in calls:
        with pytest.raises(LimitError, match="max_size"):
            call(size - 1)
        assert not (tmp_path / "out").exists()
        call(size)
        (tmp_path / "out").unlink(missing_ok=True)
    with pytest.raises(LimitError, match="max_size"):
        store.restore("latest", tmp_path / "restored", max_size=1)
    assert not (tmp_path / "restored").exists()
    store.restore("latest", tmp_path / "restored", max_size=10**9)
