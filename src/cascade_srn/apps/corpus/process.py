"""Call a function in a process of its own, many times, and survive its death.

Run as a module, this is the child: it reads pickled messages from standard input and writes pickled answers to
standard output. It ends when its standard input ends, which is when its parent is gone, so that no orphan is left.

The standard library's processes import the main module of the caller again, which starts a script that has no
``if __name__ == "__main__"`` a second time.
"""

import os
import pickle
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, BinaryIO, NamedTuple

from cascade_srn.errors import CascadeError
from cascade_srn.inference.streaming import describe_error

READY, DONE, FAILED, WARNED, ENDED = "ready", "done", "failed", "warned", "ended"
# Enough of a log for the last message of a library.
_TAIL_BYTES = 4096


class Event(NamedTuple):
    """Something that happened in a child.

    Attributes:
        kind: READY after the start, DONE or FAILED after a call or instead of READY, WARNED, or ENDED.
        child: The child.
        value: Result of the call, exception, text of the warning, or None.
    """

    kind: str
    child: "Child"
    value: Any


class Child:
    """A process that makes a function once and then calls it.

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
        events: "SimpleQueue[Event]",
        log: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.log = log
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        with _open_log(log) as handle:
            self.process = subprocess.Popen(
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=handle,
                env={**os.environ, **(environment or {}), "PYTHONPATH": paths},
                # Ctrl-C in a terminal reaches the driver only, which decides what happens to its workers.
                start_new_session=True,
            )
        self._events = events
        threading.Thread(target=self._listen, name="listen", daemon=True).start()
        self._send((make, arguments))

    def call(self, *arguments: Any) -> None:
        """Call the function. The answer arrives as an event."""
        self._send(arguments)

    def kill(self) -> None:
        """End the process at once."""
        with suppress(OSError):
            self.process.kill()

    def close(self) -> None:
        """End the process at once and wait for its end."""
        self.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(OSError, ValueError):  # data that the child did not read cannot be flushed
                if pipe is not None:
                    pipe.close()

    def cause_of_death(self) -> str:
        """Describe how the process ended, with the last line of its log."""
        code = self.process.wait()
        if code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
            hint = ", perhaps because memory ran out" if -code == signal.SIGKILL else ""
            return f"the worker was ended by {name}{hint}"
        last = self._last_line()
        return f"the worker ended with exit code {code}" + (f": {last}" if last else "")

    def _last_line(self) -> str:
        try:
            tail = self.log.read_bytes()[-_TAIL_BYTES:].decode("utf-8", "replace")
        except OSError:
            return ""
        return next((line.strip() for line in reversed(tail.splitlines()) if line.strip()), "")

    def _send(self, message: Any) -> None:
        assert self.process.stdin is not None
        with suppress(OSError):  # the child has died, which is an event of its own
            self.process.stdin.write(pickle.dumps(message))
            self.process.stdin.flush()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with suppress(EOFError, OSError, ValueError, pickle.UnpicklingError):
            while True:
                kind, value = pickle.load(self.process.stdout)
                self._events.put(Event(kind, self, value))
        self._events.put(Event(ENDED, self, None))


def _open_log(path: Path) -> BinaryIO:
    """Open a log, or the null device if the disk is full, which is reported when results cannot be written."""
    try:
        return path.open("wb")
    except OSError:
        return open(os.devnull, "wb")


def call_once(function: Callable[..., Any], *arguments: Any, log: Path, timeout: float) -> Any:
    """Call a function in a process of its own, and return its result.

    Raises:
        CascadeError: If the function raises any error, the process dies, or it takes longer than ``timeout`` seconds.
    """
    events: SimpleQueue[Event] = SimpleQueue()
    child = Child(_just, (function,), events=events, log=log)
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


def main() -> None:
    """Answer messages until standard input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    # What libraries print must not get between the answers.
    os.dup2(2, 1)
    messages: SimpleQueue[Any] = SimpleQueue()
    mutex = threading.Lock()

    def answer(kind: str, value: Any) -> None:
        data = pickle.dumps((kind, value))
        with mutex:
            answers.write(data)
            answers.flush()

    def show_warning(message: Warning | str, *details: Any, **named: Any) -> None:
        answer(WARNED, str(message))

    warnings.showwarning = show_warning
    threading.Thread(target=_receive, args=(sys.stdin.buffer, messages), daemon=True).start()
    make, arguments = messages.get()
    try:
        function = make(*arguments)
    except Exception as error:
        return answer(FAILED, _portable(error))
    answer(READY, None)
    while True:
        arguments = messages.get()
        try:
            result = function(*arguments)
        except Exception as error:
            answer(FAILED, _portable(error))
        else:
            answer(DONE, result)


def _receive(stream: BinaryIO, messages: "SimpleQueue[Any]") -> None:
    """Pass messages on. End the process with its parent, even in the middle of a call."""
    try:
        while True:
            messages.put(pickle.load(stream))
    finally:
        os._exit(0)


def _portable(error: Exception) -> CascadeError:
    """Return an error that can be pickled, and unpickled without the library that raised it."""
    return error if isinstance(error, CascadeError) else CascadeError(describe_error(error))


if __name__ == "__main__":
    main()
