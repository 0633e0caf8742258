"""Child processes that end with their parent: of a module, of a function, and of several commands in parallel.

Run as a module, this is a child. Its standard input is a pipe from its parent. When the pipe ends, because the parent
is gone, the child ends too, so that no orphan is left. With arguments, it runs a module as ``python -m`` does; without,
it reads pickled calls of a function from the pipe and writes pickled answers to its standard output.

The processes of the standard library import the main module of the caller again, which starts a script that has no
``if __name__ == "__main__"`` a second time.
"""

from __future__ import annotations

import os
import pickle
import runpy
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, BinaryIO, NamedTuple

from cascade_srn.errors import CascadeError, describe_error
from cascade_srn.runs.process import sigterm_as_exit

READY, DONE, FAILED, WARNED, ENDED = "ready", "done", "failed", "warned", "ended"
# Seconds that a process has to end after SIGTERM, and between two looks at processes.
_PATIENCE, _INTERVAL = 10.0, 0.1
# Enough of a log for the last message of a library.
_TAIL_BYTES = 4096


def start_child(
    module: str = "",
    *arguments: str,
    log: Path,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Run a module in a child process that ends with this process.

    The child has a session of its own: Ctrl-C in a terminal reaches this process only, which decides what happens.

    Args:
        module: Name of the module. Empty: the child answers calls on its standard output.
        arguments: Arguments of the module.
        log: File for the output.
        folder: Working folder of the child.
        environment: Additional environment variables.
    """
    # Relative paths would not be found from another folder.
    paths = os.pathsep.join(os.path.abspath(path) for path in sys.path)
    with _open_log(log) as output:
        return subprocess.Popen(
            [sys.executable, "-m", __name__, *([module] if module else []), *arguments],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=output if module else subprocess.PIPE,
            stderr=output,
            env={**os.environ, **(environment or {}), "PYTHONPATH": paths},
            start_new_session=True,
        )


def _open_log(path: Path) -> BinaryIO:
    """Open a log, or the null device if the disk is full, which is reported when results cannot be written."""
    try:
        return path.open("wb")
    except OSError:
        return open(os.devnull, "wb")


def end_process(process: subprocess.Popen[Any], seconds: float = _PATIENCE) -> None:
    """Terminate a process, and kill its group if it does not end in time. Nothing happens if it has ended."""
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        kill_process(process)


def kill_process(process: subprocess.Popen[Any]) -> None:
    """Kill a process, and the processes of its session if it leads one, and close its pipes."""
    with suppress(OSError, AttributeError):  # it leads no group, or the system has none
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError, ValueError):  # data that the child did not read cannot be flushed
            if pipe is not None:
                pipe.close()


def last_line(log: Path) -> str:
    """Return the last line of a log that is not blank."""
    try:
        tail = log.read_bytes()[-_TAIL_BYTES:].decode("utf-8", "replace")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(tail.splitlines()) if line.strip()), "")


@dataclass(frozen=True)
class Ended:
    """A command that has ended: its name, exit code, duration in seconds and log file."""

    name: str
    code: int
    seconds: float
    log: Path

    @property
    def last_words(self) -> str:
        """Last line of the log that is not blank."""
        return last_line(self.log)


def run_parallel(commands: Mapping[str, Sequence[str]], n_jobs: int, folder: Path) -> Iterator[Ended]:
    """Run commands of ``cascade-srn``, given as arguments by name, in parallel. Their logs are ``NAME.log``.

    CPU cores are divided among the processes. All processes are ended if the caller stops iterating, or on Ctrl-C or
    SIGTERM.
    """
    folder.mkdir(parents=True, exist_ok=True)
    waiting = list(commands.items())
    running: dict[str, tuple[subprocess.Popen[bytes], float]] = {}
    threads = max(1, (os.cpu_count() or 1) // max(1, min(n_jobs, len(waiting))))
    environment = {"OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false", **os.environ}
    with sigterm_as_exit() as termination:
        try:
            while waiting or running:
                while waiting and len(running) < n_jobs:
                    name, arguments = waiting.pop(0)
                    # A process that is started but not yet listed would not be ended.
                    with termination.postponed():
                        process = start_child(
                            "cascade_srn", *arguments, log=folder / f"{name}.log", environment=environment
                        )
                        running[name] = process, time.monotonic()
                for name, (process, started) in list(running.items()):
                    if (code := process.poll()) is not None:
                        del running[name]
                        yield Ended(name, code, time.monotonic() - started, folder / f"{name}.log")
                time.sleep(_INTERVAL)
        finally:
            for process, _ in running.values():
                process.terminate()
            for process, _ in running.values():
                end_process(process)


class ChildEvent(NamedTuple):
    """Something that happened in a child."""

    kind: str  # READY after the start, DONE or FAILED after a call or instead of READY, WARNED, or ENDED
    child: Any  # The child
    value: Any = None  # Result of the call, exception, text of the warning, or None


class FunctionChild:
    """A child process that makes a function once and then calls it.

    Args:
        make: Makes the function in the child. It must be importable by name there.
        arguments: Arguments of ``make``.
        events: Receives the events of the child.
        log: File for standard error.
        environment: Additional environment variables.
    """

    def __init__(
        self,
        make: Callable[..., Callable[..., Any]],
        arguments: tuple[Any, ...],
        *,
        events: SimpleQueue[ChildEvent],
        log: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.log = log
        self.process = start_child(log=log, environment=environment)
        self._events = events
        threading.Thread(target=self._listen, name="listen", daemon=True).start()
        self.call(make, arguments)

    def call(self, *arguments: Any) -> None:
        """Call the function. The answer arrives as an event."""
        assert self.process.stdin is not None
        with suppress(OSError):  # the child has died, which is an event of its own
            self.process.stdin.write(pickle.dumps(arguments))
            self.process.stdin.flush()

    def kill(self) -> None:
        """End the process at once. Its end is an event."""
        with suppress(OSError):
            self.process.kill()

    def close(self) -> None:
        """End the process at once and wait for its end."""
        kill_process(self.process)

    def cause_of_death(self) -> str:
        """Describe how the process ended, with the last line of its log."""
        code = self.process.wait()
        if code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
            hint = ", perhaps because memory ran out" if -code == signal.SIGKILL else ""
            return f"the worker was ended by {name}{hint}"
        last = last_line(self.log)
        return f"the worker ended with exit code {code}" + (f": {last}" if last else "")

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with suppress(EOFError, OSError, ValueError, pickle.UnpicklingError):
            while True:
                kind, value = pickle.load(self.process.stdout)
                self._events.put(ChildEvent(kind, self, value))
        self._events.put(ChildEvent(ENDED, self))


def call_once(function: Callable[..., Any], *arguments: Any, log: Path, timeout: float) -> Any:
    """Call a function in a process of its own, and return its result.

    Raises:
        CascadeError: If the function raises any error, the process dies, or it takes longer than ``timeout`` seconds.
    """
    events: SimpleQueue[ChildEvent] = SimpleQueue()
    child = FunctionChild(_just, (function,), events=events, log=log)
    timer = threading.Timer(timeout, child.kill)
    timer.start()
    try:
        child.call(*arguments)
        while True:
            event = events.get()
            if event.kind == DONE:
                return event.value
            if event.kind == FAILED:
                raise event.value
            if event.kind == ENDED:
                raise CascadeError(child.cause_of_death())
    finally:
        timer.cancel()
        child.close()


def _just(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def _answer_calls() -> None:
    """Answer calls until standard input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    # What libraries print must not get between the answers.
    os.dup2(2, 1)
    calls: SimpleQueue[Any] = SimpleQueue()
    mutex = threading.Lock()

    def answer(kind: str, value: Any = None) -> None:
        data = pickle.dumps((kind, value))
        with mutex:
            answers.write(data)
            answers.flush()

    def show_warning(message: Warning | str, *details: Any, **named: Any) -> None:
        answer(WARNED, str(message))

    warnings.showwarning = show_warning
    threading.Thread(target=_receive, args=(sys.stdin.buffer, calls), daemon=True).start()
    make, arguments = calls.get()
    try:
        function = make(*arguments)
    except Exception as error:
        return answer(FAILED, portable_error(error))
    answer(READY)
    while True:
        arguments = calls.get()
        try:
            result = function(*arguments)
        except Exception as error:
            answer(FAILED, portable_error(error))
        else:
            answer(DONE, result)


def _receive(stream: BinaryIO, calls: SimpleQueue[Any]) -> None:
    """Pass calls on. End the process with its parent, even in the middle of a call."""
    try:
        while True:
            calls.put(pickle.load(stream))
    finally:
        os._exit(0)


def portable_error(error: Exception) -> CascadeError:
    """Return an error that can be pickled, and unpickled without the library that raised it."""
    return error if isinstance(error, CascadeError) else CascadeError(describe_error(error))


def _end_with_parent() -> None:
    """Terminate this process when its standard input ends, and kill its group if it does not end in time."""
    while os.read(0, _TAIL_BYTES):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_PATIENCE)
    os.killpg(0, signal.SIGKILL) if hasattr(os, "killpg") else os._exit(1)


def main() -> None:
    """Run a module, or answer calls, until standard input ends."""
    if len(sys.argv) == 1:
        return _answer_calls()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
