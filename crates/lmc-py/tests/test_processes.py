"""Forks, threads, Ctrl-C and the end of the interpreter."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import lmckpt
import lmckpt.numpy
import no_threads
import numpy
import pytest
import torch
from lmckpt import Store, errors
from lmckpt.store.native import NativeStore


@pytest.fixture
def store(tmp_path) -> Store:
    return Store.init(tmp_path / "store")


def values(count: int, seed: int = 0) -> numpy.ndarray:
    return numpy.random.default_rng(seed).standard_normal(count).astype("f4")


def in_child(work: Callable[[], bool]) -> None:
    """Runs ``work`` in a process that is forked off, and fails unless it is true there."""
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # A child that hangs must not hang the test.
        is_right = False
        try:
            is_right = work()
        finally:
            os._exit(0 if is_right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_fork_with_open_files(store: Store, tmp_path) -> None:
    """What is open is good in the child too, and the parent does not notice."""
    data = values(200_000)
    store.save({"x": data}, step=1)
    lmckpt.numpy.save_file({"x": data}, tmp_path / "x.lmc")
    with lmckpt.safe_open(tmp_path / "x.lmc", "np") as file:
        stored = store.open_file("latest", "model.safetensors", "np")

        def child() -> bool:
            is_right = bool((file.get_tensor("x") == data).all())
            is_right &= bool((stored.get_tensor("x") == data).all())
            store.save({"x": data + 1}, step=2)
            return is_right and store.latest().step == 2

        in_child(child)
        assert (file.get_tensor("x") == data).all()
    assert (store.load("main@2")["x"] == data + 1).all()


def test_fork_with_a_save_under_way(store: Store, monkeypatch) -> None:
    """The save is the parent's: the child neither waits for it nor ends it, and may save itself."""
    go = threading.Event()
    save = NativeStore.save_flat

    def slow(self, flat, options):
        assert options["run"] == "child" or go.wait(60)
        return save(self, flat, options)

    monkeypatch.setattr(NativeStore, "save_flat", slow)
    future = store.save_async({"x": torch.ones(1000)}, run="parent")

    def child() -> bool:
        store.wait()
        store.close()
        store.save_async({"x": torch.zeros(1000)}, run="child").result(60)
        store.close()
        return not future.done()

    in_child(child)
    go.set()
    assert future.result(60).run == "parent"
    assert sorted(snapshot.run for snapshot in store.snapshots()) == ["child", "parent"]


def _row(job: tuple[Store, str, int]) -> float:
    store, path, row = job
    with lmckpt.safe_open(path, "pt") as file:
        alone = file.get_slice("x")[row]
    with store.open_file("latest", "model.safetensors") as file:
        assert torch.equal(alone, file.get_slice("x")[row])
    return float(alone[0])


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers(store: Store, method: str, tmp_path) -> None:
    """Workers as those of a DataLoader read rows of a file and of a store, which is pickled."""
    tensor = torch.arange(40.0).repeat_interleave(100).reshape(40, 100)
    lmckpt.torch.save_file({"x": tensor}, tmp_path / "x.lmc")
    store.save({"x": tensor})
    jobs = [(store, str(tmp_path / "x.lmc"), row) for row in range(40)]
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map_async(_row, jobs).get(120) == [float(row) for row in range(40)]


def test_threads_on_one_store(store: Store, tmp_path) -> None:
    """Saves, loads and compressions from many threads at once are all right."""
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for step in range(3):
                data = values(30_000, 10 * number + step)
                store.save({"x": data}, run=f"r{number}", step=step, threads=1)
                assert (store.load(f"r{number}@{step}")["x"] == data).all()
                assert lmckpt.decompress(lmckpt.compress(data)) == data.tobytes()
        except BaseException as error:  # noqa: BLE001, the test raises it
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(store.snapshots()) == 18
    assert store.check(read_data=True) == []


def test_interpreter_is_free(tmp_path) -> None:
    """Another thread continues while a call works: the call waits for what that thread will do.

    The source is a pipe. With the interpreter held, nobody could ever write to it.
    """
    data = values(10_000).tobytes()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    done: list[str] = []

    def read() -> None:
        done.append(lmckpt.compress_file(pipe, tmp_path / "x.lmc"))

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    pipe.write_bytes(data)
    thread.join(60)
    assert done and lmckpt.decompress(Path(done[0]).read_bytes()) == data


# Each has a folder with a store and a file of 240 MB, which is x too, and takes longer than the
# test waits for it to begin, on any machine.
CALLS = {
    "compress": "lmckpt.compress(x, level='max', threads=1)",
    "compress_file": "lmckpt.compress_file(file, file + '.lmc', level='max', threads=1)",
    "save": "store.save({'x': x}, run='new', level='max', threads=1)",
    "save_path": "store.save(file, run='new', level='max', threads=1)",
    "save_file": "lmckpt.numpy.save_file({'x': x}, file + '.lmc', level='max', threads=1)",
    "restore": "[store.restore('latest', f'{folder}/whole-{i}', threads=1) for i in range(1000)]",
    "load": "[store.load('latest', threads=1) for _ in range(1000)]",
    "decompress": "[lmckpt.decompress(packed, threads=1) for _ in range(1000)]",
    "check": "[store.check(read_data=True) for _ in range(1000)]",
    "wait": "store.save_async({'x': x}, run='new', level='max', threads=1); store.wait()",
}
SCRIPT = """
import os, sys, signal
import numpy, lmckpt, lmckpt.numpy
folder, call = sys.argv[1:]
signal.signal(signal.SIGINT, signal.default_int_handler)
store = lmckpt.Store(folder + "/store")
code = compile(call, "call", "exec")  # exec of text would end the process by the signal.
file = folder + "/x.bin"
x = numpy.fromfile(file, "f4")
packed = open(folder + "/packed", "rb").read()
try:
    print("ready", flush=True)  # From here on a signal is caught.
    exec(code)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    # Everything works as if nothing had been.
    assert store.latest().run == "old"
    assert lmckpt.decompress(lmckpt.compress(b"abc")) == b"abc"
    if "save_async" in call:
        os._exit(0)  # The save itself continues; it is not what this tests.
else:
    print("ended", flush=True)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A store, a file and its compressed form."""
    folder = tmp_path_factory.mktemp("calls")
    data = values(12_000_000)
    numpy.resize(data, 60_000_000).tofile(folder / "x.bin")
    (folder / "packed").write_bytes(lmckpt.compress(data, level="fast"))
    Store.init(folder / "store").save({"x": data}, run="old", level="fast")
    return folder


@pytest.mark.parametrize("name", CALLS)
def test_ctrl_c(name: str, folder: Path) -> None:
    """A call that would take long ends soon after SIGINT, and leaves nothing behind."""
    command = [sys.executable, "-c", SCRIPT, str(folder), CALLS[name]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            # It is somewhere in the call soon; where does not matter, but that it has not ended.
            time.sleep(0.1)
            child.send_signal(signal.SIGINT)
            assert child.communicate(timeout=30)[0] == "interrupted\n"
        finally:
            child.kill()
    assert child.returncode == 0
    store = Store(folder / "store")
    size = store.latest().size
    for whole in folder.glob("whole-*"):
        assert sum(file.stat().st_size for file in whole.iterdir()) == size
        shutil.rmtree(whole)
    # A file that had its name before the signal came is whole.
    saved = folder / "x.bin.lmc"
    if saved.exists():
        assert lmckpt.numpy.load_file(saved)["x"].tobytes() == (folder / "x.bin").read_bytes()
        saved.unlink()
    assert {path.name for path in folder.iterdir()} == {"packed", "store", "x.bin"}
    if name != "wait":
        assert [path.name for path in (folder / "store" / "pending").iterdir()] == [".folder"]
    assert {snapshot.run for snapshot in store.snapshots()} == {"old"}
    assert store.check() == []


def test_other_signals(tmp_path) -> None:
    """Handlers run while a call continues; one that does not raise does not end it."""
    seen: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: seen.append(number))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def write() -> None:
        with open(pipe, "wb") as file:
            file.write(b"first")
            file.flush()
            os.kill(os.getpid(), signal.SIGUSR1)
            # The call cannot end before the handler has run: the file is not whole until then.
            until = time.monotonic() + 60
            while not seen and time.monotonic() < until:
                time.sleep(0.01)
            file.write(b" last")

    writer = threading.Thread(target=write)
    try:
        writer.start()
        packed = lmckpt.compress_file(pipe, tmp_path / "x.lmc")
        writer.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert seen == [signal.SIGUSR1]
    assert lmckpt.decompress(Path(packed).read_bytes()) == b"first last"


def test_end_of_the_interpreter(store: Store) -> None:
    """A save that is running when the program ends is finished first."""
    script = (
        "import sys, torch, lmckpt\n"
        "state = {'x': torch.arange(3_000_000.0)}\n"
        "lmckpt.Store(sys.argv[1]).save_async(state, step=7, level='max', threads=1)\n"
    )
    subprocess.run([sys.executable, "-c", script, store.url], check=True, timeout=120)
    assert torch.equal(store.load("main@7")["x"], torch.arange(3_000_000.0))


@pytest.mark.parametrize("waits", [False, True])
def test_a_save_after_the_end_of_the_main_thread(store: Store, waits: bool) -> None:
    """A save in the background that a function of atexit asks for is done before the program
    ends."""
    script = (
        "import atexit, sys, numpy, lmckpt\n"
        "def last():\n"
        "    store = lmckpt.Store(sys.argv[1])\n"
        "    store.save_async({'x': numpy.arange(1_000_000.0)}, step=7)\n"
        f"    {waits} and store.wait()\n"
        "atexit.register(last)\n"
    )
    subprocess.run([sys.executable, "-c", script, store.url], check=True, timeout=120)
    assert store.load("main@7")["x"][-1] == 999_999.0


def test_a_wait_is_also_for_what_is_called_after_the_save(store: Store) -> None:
    """A save has ended when the wait for it ends; what is called after it may wait too."""
    seen = []

    def after(future) -> None:
        store.wait()
        time.sleep(0.2)
        seen.append(future.result().step)

    store.save_async({"x": torch.ones(3)}, step=4).add_done_callback(after)
    store.wait()
    assert seen == [4]
    store.close()


def test_a_save_in_the_background_needs_no_thread(store: Store, monkeypatch, caplog) -> None:
    """Where the system refuses another thread, the save is done at once, and a line says so."""

    def start(self) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        future = store.save_async({"x": torch.ones(3)}, step=4)
        assert future.done() and future.result().step == 4
        assert "done in the foreground: can't start new thread" in caplog.text
        failed = store.save_async({"x": torch.ones(3)}, parent="0123abcd")
        assert isinstance(failed.exception(), errors.NotFoundError)
    assert store.save_async({"x": torch.ones(3)}).result(60).step == 5
    store.close()
    assert torch.equal(store.load("main@4")["x"], torch.ones(3))


def test_a_save_that_is_broken_off_before_it_begins_is_not_waited_for(
    store: Store, monkeypatch
) -> None:
    """Ctrl-C between two calls leaves nothing that the next save would wait for."""

    def start(self) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        with pytest.raises(KeyboardInterrupt):
            store.save_async({"x": torch.ones(3)})
        with pytest.raises(KeyboardInterrupt):
            store.wait()
    assert store.save_async({"x": torch.ones(3)}).result(60).step == 0
    store.close()


@pytest.mark.filterwarnings("ignore:.*torch.distributed is (disabled|unavailable)")
@pytest.mark.parametrize("where", ["main", "other"])
def test_no_call_panics_where_no_thread_can_be_had(
    store: Store, tmp_path: Path, where: str
) -> None:
    """Each call works, in the thread that it is called from, or raises what can be caught."""
    no_threads.fill(tmp_path, store)
    done = subprocess.run(
        [sys.executable, no_threads.__file__, str(tmp_path), where],
        # No stack can be as long as this, so that no thread of Rust is started.
        env={**os.environ, "RUST_MIN_STACK": str(1 << 62)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0 and done.stdout.endswith("done\n"), done.stdout + done.stderr
    assert store.check(read_data=True) == []
