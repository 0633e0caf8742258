"""Progress of a benchmark, and the rows that remain of one that is interrupted. This module does not import torch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from cascade_srn.runs.display import ProgressRow

T = TypeVar("T")

# Ctrl-C, and SIGTERM inside of ``sigterm_as_exit``.
INTERRUPTIONS = (KeyboardInterrupt, SystemExit)


class BenchmarkRun:
    """A benchmark in progress: it reports what is measured now, and keeps what was measured before an interruption.

    Attributes:
        rows: Rows that are complete, or as complete as they were when the benchmark was interrupted.
        interruption: The Ctrl-C or SIGTERM that ended the benchmark early, or None.

    Args:
        report: Called for each turn and each message. By default nothing is reported.
    """

    def __init__(self, report: Callable[[ProgressRow], None] | None = None) -> None:
        self.rows: list[dict[str, Any]] = []
        self.interruption: BaseException | None = None
        self._report = report
        self._what = ""
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        """Wall-clock seconds since the benchmark began."""
        return time.monotonic() - self._started

    @property
    def is_partial(self) -> bool:
        """Whether the benchmark was interrupted."""
        return self.interruption is not None

    def step(self, what: str, turn: int = 0, n_turns: int | None = None, candidate: str = "") -> None:
        """Report what is measured next. A benchmark that was interrupted ends here.

        Args:
            what: The measurement.
            turn: Number of the turn, from 1.
            n_turns: Number of turns of the measurement; None if it has only one.
            candidate: What is measured in this turn, if candidates take turns.
        """
        if self.interruption is not None:
            raise self.interruption
        if self._report is None:
            return
        from cascade_srn.runs.display import ProgressRow, duration

        of = f"turn {turn} of {n_turns}" if n_turns else ""
        figures = ", ".join(filter(None, (of, candidate, duration(self.seconds))))
        is_new, self._what = what != self._what, what
        completed = max(0, turn - 1)
        self._report(ProgressRow(what, completed, n_turns, figures, f"{what}: {figures}", to_file=is_new))

    def log(self, line: str) -> None:
        """Print a line, such as a result."""
        if self._report is not None:
            from cascade_srn.runs.display import ProgressRow

            self._report(ProgressRow(self._what, 0, None, "", line, to_file=True, to_terminal=True))

    def part(self, what: str, function: Callable[[], T]) -> T | None:
        """Return the result of a function, or None if the benchmark is or was interrupted.

        Used for columns without which a row is still worth keeping.
        """
        if self.interruption is None:
            with self.keeping():
                self.step(what)
                return function()
        return None

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """End this block at an interruption. The benchmark ends at its next step."""
        try:
            yield
        except INTERRUPTIONS as error:
            self.interruption = error

    @contextmanager
    def collecting(self, kept: Sized | None = None) -> Iterator[None]:
        """End this block at an interruption, if there is something to keep: rows, or else ``kept``.

        Raises:
            KeyboardInterrupt, SystemExit: If there is nothing to keep.
        """
        try:
            yield
        except INTERRUPTIONS as error:
            self.interruption = error
            if not (self.rows if kept is None else kept):
                raise
