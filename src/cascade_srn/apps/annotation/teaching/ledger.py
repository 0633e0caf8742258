"""All answers of the teacher, and what they cost, in a file that survives a kill.

A request is noted before it is sent, and its answer is on disk before it counts. So a stored answer is never asked for
again. Requests that were under way when a process was killed may have been paid; they count with the highest price.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cascade_srn.apps.annotation.files import AppendOnlyFile, read_lines
from cascade_srn.apps.annotation.teaching.endpoint import Reply
from cascade_srn.apps.annotation.teaching.prompts import Question
from cascade_srn.config import require_range
from cascade_srn.errors import ConfigError
from cascade_srn.formats.files import to_json
from cascade_srn.storage.atomic import flush_entry

TEACHING, ANSWERS = "teaching", "answers.jsonl"
# Bytes of a token: few, so that a budget holds before the server has counted tokens, and as usual in English.
_FEW_BYTES, _USUAL_BYTES = 2.5, 4.0
# Tokens of an answer about a sentence, for estimates before there are answers.
_ANSWER_TOKENS = 150


@dataclass(frozen=True)
class Budget:
    """What answers may cost.

    Attributes:
        money: Most that all answers may cost; None for no limit.
        tokens: Most tokens of all questions and answers; None for no limit.
        prices: Prices of a million tokens of questions and of answers.
    """

    money: float | None = None
    tokens: int | None = None
    prices: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.money is not None:
            require_range("budget", self.money, 0, option="budget")
            if self.prices is None:
                raise ConfigError("a budget in money needs prices", "Give those of a million tokens", option="price")
        if self.tokens is not None:
            require_range("budget_tokens", self.tokens, 0, option="budget_tokens")
        for price in self.prices or ():
            require_range("price", price, 0, option="price")

    def cost(self, tokens: tuple[float, float]) -> float:
        """Return the price of tokens of questions and answers; 0 without prices."""
        first, second = self.prices or (0.0, 0.0)
        return (tokens[0] * first + tokens[1] * second) / 1e6

    def allows(self, cost: float, tokens: float) -> bool:
        """Return whether so much may be spent in all."""
        return (self.money is None or cost <= self.money) and (self.tokens is None or tokens <= self.tokens)


class BudgetSpent(Exception):
    """The next request could exceed the budget."""


@dataclass
class Spent:
    """What a ledger contains in all."""

    n_answers: int = 0
    tokens: tuple[int, int] = (0, 0)  # Tokens of questions and answers
    cost: float = 0.0
    n_open: int = 0  # Requests without an answer that may have been paid
    open_tokens: int = 0  # Most tokens of these
    open_cost: float = 0.0  # Highest price of these


@dataclass
class Ledger:
    """The answers of a project. Methods may be called from several threads.

    Args:
        folder: Folder of the project.
        model: Name of the model.
        budget: What all answers of the project may cost.
        max_tokens: Longest answer in tokens.
    """

    folder: Path
    model: str
    budget: Budget = field(default_factory=Budget)
    max_tokens: int = 1024

    def __post_init__(self) -> None:
        self.answers: dict[str, Mapping[str, Any]] = {}
        self.spent = Spent()
        self._lock = threading.Lock()
        self._highest: dict[str, tuple[int, float]] = {}
        self._n_bytes = 0
        path = self.folder / TEACHING / ANSWERS
        records, self._size = read_lines(path, torn=True)
        for record in records:
            self._apply(record)
        self._file: AppendOnlyFile | None = None

    def open_for_writing(self) -> None:
        """Open the file, and remove an incomplete last line. The caller must hold the lock of the project."""
        path = self.folder / TEACHING / ANSWERS
        if not path.parent.exists():
            path.parent.mkdir()
            flush_entry(self.folder)
        self._file = AppendOnlyFile(path, self._size)

    def close(self) -> None:
        """Close the file. Answers that arrive later are lost."""
        with self._lock:
            if self._file is not None:
                self._file.close()

    def _apply(self, record: Mapping[str, Any]) -> None:
        kind, key, spent = record["kind"], record["key"], self.spent
        if kind == "asked":
            self._highest[key] = (record["tokens"], record["cost"])
        tokens, cost = self._highest.get(key, (0, 0.0))
        change = 1 if kind == "asked" else -1
        spent.n_open, spent.open_tokens = spent.n_open + change, spent.open_tokens + change * tokens
        spent.open_cost = max(0.0, spent.open_cost + change * cost) if spent.n_open else 0.0
        if kind == "answer":
            self.answers[key] = record
            spent.n_answers += 1
            spent.tokens = spent.tokens[0] + record["tokens"][0], spent.tokens[1] + record["tokens"][1]
            spent.cost += record["cost"]
            self._n_bytes += record["bytes"]

    def _append(self, record: Mapping[str, Any]) -> None:
        assert self._file is not None
        self._file.append(f"{to_json(record)}\n".encode())
        self._apply(record)

    def get(self, question: Question) -> Mapping[str, Any] | None:
        """Return the stored answer to a question."""
        return self.answers.get(question.key(self.model))

    def reserve(self, question: Question) -> None:
        """Note that a request is sent.

        Raises:
            BudgetSpent: With its highest price, the budget could be exceeded.
        """
        with self._lock:
            asked = round(question.n_bytes / min(_FEW_BYTES, self.bytes_per_token))
            cost, spent = self.budget.cost((asked, self.max_tokens)), self.spent
            total = sum(spent.tokens) + spent.open_tokens + asked + self.max_tokens
            if not self.budget.allows(spent.cost + spent.open_cost + cost, total):
                raise BudgetSpent
            self._append(
                {"kind": "asked", "key": question.key(self.model), "tokens": asked + self.max_tokens, "cost": cost}
            )

    def release(self, question: Question) -> None:
        """Note that a request has cost nothing."""
        with self._lock:
            self._append({"kind": "unpaid", "key": question.key(self.model)})

    def store(self, question: Question, reply: Reply) -> Mapping[str, Any]:
        """Store an answer. When this returns, it is on disk."""
        sizes = question.n_bytes, len(reply.content.encode(errors="replace"))
        tokens = reply.tokens or (round(sizes[0] / _USUAL_BYTES), round(sizes[1] / _USUAL_BYTES))
        record = {
            "kind": "answer",
            "key": question.key(self.model),
            "document": question.document,
            "sample": question.sample,
            "prompt": question.prompt,
            "model": self.model,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "tokens": tokens,
            "counted": reply.tokens is not None,
            "cost": self.budget.cost(tokens),
            "bytes": question.n_bytes,
            "problem": reply.problem,
            "content": reply.content,
        }
        with self._lock:
            self._append(record)
        return record

    @property
    def bytes_per_token(self) -> float:
        """Bytes of a question for each token, as far as they are counted."""
        return self._n_bytes / self.spent.tokens[0] if self.spent.tokens[0] else _USUAL_BYTES

    def estimate(self, questions: list[Question]) -> tuple[tuple[int, int], int]:
        """Return the tokens of questions and likely answers, and the most tokens that the answers can have."""
        n_answers = self.spent.n_answers
        answer = self.spent.tokens[1] / n_answers if n_answers else min(_ANSWER_TOKENS, self.max_tokens)
        asked = sum(question.n_bytes for question in questions) / self.bytes_per_token
        return (round(asked), round(answer * len(questions))), self.max_tokens * len(questions)
