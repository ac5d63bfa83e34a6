"""Runs a command and kills it, with all its threads, at its N-th system call that changes
something.

    kill_at.py N COMMAND...     N = 0 kills nothing

The last line of the output is the number of such calls. The one that is killed is not done. Exit
code: that of the command, 137 if it was killed, 77 if this machine cannot trace.

With SIGNALS="2 2", say, in the environment, the command gets these signals instead, 0.1 s apart,
and the call waits for HOLD seconds: so the command is surely in its middle when it hears of them.

strace counts the calls of each thread on its own, so that those of a second thread come too late to
be met; here the calls of all threads are counted together.
"""

import ctypes
import os
import platform
import signal
import struct
import sys
import time

TRACEME, SYSCALL, SETOPTIONS, GET_SYSCALL_INFO = 0, 24, 0x4200, 0x420E
# SYSGOOD, FORK, VFORK, CLONE, EXEC, EXITKILL
OPTIONS = 1 | 2 | 4 | 8 | 16 | 0x100000
WALL = 0x40000000
ENTRY = 1

CALLS = {
    "x86_64": {
        "write": 1, "pwrite64": 18, "writev": 20, "pwritev": 296, "open": 2, "openat": 257,
        "openat2": 437, "fsync": 74, "fdatasync": 75, "truncate": 76, "ftruncate": 77,
        "fallocate": 285, "copy_file_range": 326, "rename": 82, "renameat": 264,
        "renameat2": 316, "link": 86,
        "linkat": 265, "symlink": 88, "symlinkat": 266, "unlink": 87, "unlinkat": 263, "mkdir": 83,
        "mkdirat": 258, "rmdir": 84, "chmod": 90, "fchmod": 91, "fchmodat": 268, "utimensat": 280,
        "sendfile": 40, "ioctl": 16,
    },
    "aarch64": {
        "write": 64, "pwrite64": 68, "writev": 66, "pwritev": 70, "openat": 56, "openat2": 437,
        "fsync": 82, "fdatasync": 83, "truncate": 45, "ftruncate": 46, "fallocate": 47,
        "copy_file_range": 285, "renameat": 38, "renameat2": 276, "linkat": 37, "symlinkat": 36,
        "unlinkat": 35, "mkdirat": 34, "fchmod": 52, "fchmodat": 53, "utimensat": 88,
        "sendfile": 71, "ioctl": 29,
    },
}
O_CREAT, O_TRUNC = 0o100, 0o1000
FICLONE = 0x40049409


def changes(name, args):
    """Whether a call changes something on the disk."""
    if name in ("write", "pwrite64", "writev", "pwritev"):
        return args[0] > 2
    if name in ("open", "openat"):
        flags = args[1] if name == "open" else args[2]
        return bool(flags & (O_CREAT | O_TRUNC))
    if name == "ioctl":
        return args[1] == FICLONE
    return name is not None


class Hold:
    """A call that waits while signals are sent."""

    def __init__(self, signals, seconds):
        self.signals, self.seconds = signals, seconds
        self.pid, self.start, self.sent = None, 0.0, 0

    def begin(self, pid):
        self.pid, self.start = pid, time.monotonic()

    def goes_on(self, child):
        """Sends what is due; whether the call still waits."""
        passed = time.monotonic() - self.start
        while self.sent < len(self.signals) and passed >= 0.1 * self.sent:
            try:
                os.kill(child, self.signals[self.sent])
            except ProcessLookupError:
                pass
            self.sent += 1
        return passed < self.seconds


def main():
    kill_at, command = int(sys.argv[1]), sys.argv[2:]
    signals = [int(number) for number in os.environ.get("SIGNALS", "").split()]
    hold = Hold(signals, float(os.environ.get("HOLD", "0.2")))
    calls = CALLS.get(platform.machine())
    if calls is None:
        print("unknown machine", platform.machine(), file=sys.stderr)
        sys.exit(77)
    names = {number: name for name, number in calls.items()}
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    child = os.fork()
    if child == 0:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        # Whoever runs this may ignore them.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        if libc.ptrace(TRACEME, 0, None, None) != 0:
            os._exit(77)
        try:
            os.execvp(command[0], command)
        except OSError as error:
            print(command[0], error, file=sys.stderr)
            os._exit(127)
    _, status = os.waitpid(child, 0)
    if not os.WIFSTOPPED(status):
        sys.exit(os.waitstatus_to_exitcode(status))
    libc.ptrace(SETOPTIONS, child, None, OPTIONS)
    libc.ptrace(SYSCALL, child, None, None)
    info = ctypes.create_string_buffer(96)
    count, code, is_killed = 0, 0, False
    while True:
        try:
            pid, status = os.waitpid(-1, WALL | (os.WNOHANG if hold.pid else 0))
        except ChildProcessError:
            break
        if hold.pid and not hold.goes_on(child):
            libc.ptrace(SYSCALL, hold.pid, None, 0)
            hold.pid = None
        if pid == 0:
            time.sleep(0.002)
            continue
        if not os.WIFSTOPPED(status):
            if pid == child:
                code = 137 if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
            continue
        stop, deliver = os.WSTOPSIG(status), 0
        if stop == signal.SIGTRAP | 0x80:
            libc.ptrace(GET_SYSCALL_INFO, pid, len(info), ctypes.addressof(info))
            if info.raw[0] == ENTRY and not is_killed:
                number, *args = struct.unpack_from("<7Q", info.raw, 24)
                args[0] &= 0xFFFFFFFF
                if changes(names.get(number), args):
                    count += 1
                    if count == kill_at:
                        is_killed = True
                        if signals:
                            hold.begin(pid)
                            continue
                        # The one that calls may be a child of the command.
                        os.kill(pid, signal.SIGKILL)
                        os.kill(child, signal.SIGKILL)
        elif stop not in (signal.SIGTRAP, signal.SIGSTOP):
            deliver = stop
        libc.ptrace(SYSCALL, pid, None, deliver)
    print(count)
    sys.exit(code)


if __name__ == "__main__":
    main()
