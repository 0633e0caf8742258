"""What the benchmark of the service can be asked to measure; free of torch and of the service's libraries."""

from __future__ import annotations

from dataclasses import dataclass

from cascade_srn.config import Settings, require_choice, require_range

PRECISIONS = ("auto", "float32", "bf16")


@dataclass(frozen=True)
class ServeOptions(Settings):
    """One client, then ``clients`` of them at once for ``seconds``, each asking anew as soon as it has its answer.

    ``model`` is a saved one; without one a small one is made, its heads at random.
    """

    model: str | None = None
    data: str | None = None
    sentences: int = 500
    clients: int = 1000
    seconds: float = 30.0
    single: int = 200
    batch_words: int = 1024
    precision: str = "auto"
    device: str = "auto"

    def __post_init__(self) -> None:
        for name in ("sentences", "clients", "single", "batch_words"):
            require_range(name, getattr(self, name), 1)
        require_range("seconds", self.seconds, 0.1)
        require_choice("precision", self.precision, PRECISIONS)
