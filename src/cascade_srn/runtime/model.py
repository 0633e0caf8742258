"""Load a model without torch, and use it as a :class:`.Model` is used for extraction.

It is an exported model, or a PyTorch model whose folder has an encoder for ONNX Runtime beside its weights.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import weakref
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import Any

import numpy as np

from cascade_srn.config import ModelSettings
from cascade_srn.encoder.pieces import WordPieces
from cascade_srn.encoder.tokenizing import SpecialPieces
from cascade_srn.encoder.windows import Integers
from cascade_srn.errors import ConfigError, ModelError
from cascade_srn.inference.batching import Helpers
from cascade_srn.inference.cascade_search import CascadeSearch, SearchSettings
from cascade_srn.inference.precision import PrecisionRecord
from cascade_srn.inference.predictor import BaseModel
from cascade_srn.model.folder import (
    COPY_AGAIN,
    ENCODER_FILE,
    EXPORT_VERSION,
    TOKENIZER_FILE,
    WEIGHTS_FILE,
    find_light_problem,
    missing_for_torch,
    read_config,
    read_export,
    read_light,
    read_precision,
    read_tensors,
)
from cascade_srn.network.examples import RowCollator
from cascade_srn.network.markers import Markers, marker_names
from cascade_srn.runs.device import one_blas_thread
from cascade_srn.runtime.layers import Array
from cascade_srn.runtime.turns import PIECES_AT_ONCE, LightNetwork, LightTurns
from cascade_srn.schema import Schema
from cascade_srn.storage.files import file_crc32

# How the names of weights of the pretrained encoder begin.
ENCODER_WEIGHTS = "encoder."
INPUTS, OUTPUT = ("input_ids", "attention_mask"), "hidden"
# Threads read passes side by side if the vectors of the encoder are at most this wide.
_SMALL_WIDTH = 512


@dataclass(frozen=True)
class LightModel(BaseModel):
    """A model without torch. It has the part of :class:`.Model` that extraction and calibration use."""

    settings: ModelSettings  # The settings of the model
    schema: Schema  # The labels
    network: LightNetwork  # The weights, in ONNX Runtime and NumPy
    rows: RowCollator  # Makes rows for the encoder
    precision: str = "float32"  # "float32" or "int8", that of the encoder
    is_exported: bool = True  # Whether the model runs without torch only
    precision_record: PrecisionRecord | None = None  # Predictions on calibration documents
    session: Session | None = None  # The encoder, whose threads can search batches

    @classmethod
    def load(cls, folder: str | Path) -> LightModel:
        """Read an exported model from a folder, or a PyTorch model with ``light.json``.

        The folder need not be trusted: it contains no code, and its files are compared with their checksums.

        Raises:
            ModelError: If the folder has no exported model, or a damaged one, or ONNX Runtime is missing.
        """
        folder = Path(folder)
        settings, schema, _, checksums = read_config(folder)
        exported = read_export(folder)
        if exported is None and (problem := find_light_problem(folder)):
            raise ModelError(
                f"the files for ONNX Runtime in {str(folder)!r} cannot be used: {problem[1]}",
                "Export the model again in its folder, or copy it again",
            )
        export = read_light(folder) if exported is None else exported
        if export is None:
            raise ModelError(f"the model in {str(folder)!r} is not exported", "Export it first")
        if export.get("version") != EXPORT_VERSION:
            raise ModelError(
                f"the exported model in {str(folder)!r} has version {export.get('version')!r}, but this release reads "
                f"{EXPORT_VERSION}",
                "Export the model again",
            )
        if exported is not None:
            _check_files(folder, checksums, export)
        try:
            special: dict[str, Any] = {
                name: tuple(value) if isinstance(value, list) else value
                for name, value in export["special_pieces"].items()
            }
            pieces = WordPieces(
                _load_tokenizer(folder / TOKENIZER_FILE),
                limit=int(export["limit"]),
                overlap=settings.encoder.overlap,
                text_form=settings.text_form,
                special=SpecialPieces(**special),
            )
            markers = _find_markers(settings, schema, export["markers"])
            is_int8 = export.get("precision") == "int8"
            weights = _load_weights(folder / WEIGHTS_FILE)
            is_small = weights["sequence.forward_cell.input_projection.weight"].shape[1] <= _SMALL_WIDTH
            session = Session(folder / ENCODER_FILE, divides_passes=not is_small)
            network = LightNetwork(
                session.read_passes,
                weights,
                pooling=settings.encoder.pooling,
                fusion=settings.fusion,
                equal_windows=is_int8,
                # Before 8-bit products had scales that do not depend on other windows.
                pieces_at_once=1 if is_int8 and "n_float32" not in export else PIECES_AT_ONCE,
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ModelError(
                f"the exported model in {str(folder)!r} cannot be read ({type(error).__name__}: {error})", COPY_AGAIN
            ) from error
        rows = RowCollator(pieces, markers, schema, settings.fusion)
        precision, record = str(export.get("precision")), read_precision(folder)
        return cls(settings, schema, network, rows, precision, exported is not None, record, session)

    @property
    def collator(self) -> RowCollator:
        """Makes rows for the encoder."""
        return self.rows

    @property
    def device(self) -> None:
        """None: the model does not run on a device of torch."""
        return None

    @property
    def survives_fork(self) -> bool:
        """True: a forked process gets a session of its own."""
        return True

    def to(self, device: Any) -> None:
        """Accept "auto" and "cpu" only.

        Raises:
            ConfigError: If it is another device.
        """
        check_device(str(device), is_exported=self.is_exported)

    def eval(self) -> None:
        """Do nothing: an exported model cannot be trained."""

    def check_precision(self, precision: str) -> None:
        """Refuse another precision than that of the encoder in ONNX Runtime."""
        if precision in ("auto", self.precision):
            return
        if self.is_exported:
            raise ConfigError(
                f"the exported model computes in {self.precision}, not in {precision}",
                "Use auto, or export the model again",
                option="precision",
            )
        raise ConfigError(
            f"in ONNX Runtime, the model computes in {self.precision}, not in {precision}",
            f"Use auto, or {_torch_hint()}",
            option="precision",
        )

    def search(self, settings: SearchSettings) -> CascadeSearch:
        """Make the search of a batch. See :class:`.BaseModel`."""
        return CascadeSearch(LightTurns(self.network, settings), self.rows, settings)

    def inference(self) -> AbstractContextManager[Any]:
        """Return an empty context. See :class:`.BaseModel`."""
        return nullcontext()

    @contextmanager
    def helpers(self) -> Iterator[Helpers | None]:
        """Lend the threads of the encoder. See :class:`.BaseModel`."""
        threads = None if self.session is None else self.session.threads
        if self.session is None or threads is None:
            yield None
            return
        # Threads of NumPy's matrix products would wait spinning, and take the time of the others.
        with one_blas_thread():
            yield Helpers(threads, self.session.n_threads - 1)


def check_device(device: str, *, is_exported: bool) -> None:
    """Refuse devices other than the CPU.

    Raises:
        ConfigError: If it is neither "auto" nor "cpu".
    """
    if device in ("auto", "cpu"):
        return
    if is_exported:
        raise ConfigError(
            f"an exported model runs on the CPU, not on the device {device!r}",
            "Use cpu or auto, or the model that it was exported from",
            option="device",
        )
    if missing_for_torch():
        problem = f"the device {device!r} needs torch, which is not installed"
    else:
        problem = f"in ONNX Runtime, the model runs on the CPU, not on the device {device!r}"
    raise ConfigError(problem, f"Use cpu or auto, or {_torch_hint()}", option="device")


def _torch_hint() -> str:
    if missing_for_torch():
        return "run pip install 'cascade-srn[train]'"
    return "load the model with this device and precision, or with runtime='torch'"


def count_threads() -> int:
    """Return the number of threads: ``OMP_NUM_THREADS``, else as many as torch has if it is loaded, else all cores."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    if (torch := sys.modules.get("torch")) is not None:
        return int(torch.get_num_threads())
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def start_session(model: str | bytes, n_threads: int) -> Any:
    """Start ONNX Runtime with a model: the path of its file, or its content."""
    try:
        import onnxruntime
    except ImportError as error:
        raise ModelError(
            "a model without torch needs onnxruntime, which is not installed", "Run pip install cascade-srn"
        ) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = n_threads
    # Threads that wait for work would take time from other processes.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    # The fused operator is not vectorized: it takes three times the time of two sums and a layer norm.
    slow = ["SkipLayerNormFusion"]
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"], disabled_optimizers=slow)


_THIS_THREAD = threading.local()


def _become_helper() -> None:
    _THIS_THREAD.is_helper = True


class Session:
    """The pretrained encoder in ONNX Runtime.

    A process that is forked starts it again when it is used, because its threads do not survive.

    Args:
        path: The file of the encoder.
        divides_passes: Whether all threads work on each pass. Else, each thread works on a pass of its own, which is
            faster for small encoders: their matrix products are too small to be divided.
    """

    def __init__(self, path: Path, *, divides_passes: bool = True) -> None:
        self.path, self.divides_passes, self.n_threads = path, divides_passes, count_threads()
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None
        self._session: Any = self._start()
        self._names = {item.name for item in self._session.get_inputs()}
        _SESSIONS.add(self)

    def __reduce__(self) -> tuple[Any, tuple[Path]]:
        """Start another session from the same file in a copy, also in another process."""
        return partial(Session, divides_passes=self.divides_passes), (self.path,)

    def _start(self) -> Any:
        try:
            return start_session(str(self.path), self.n_threads if self.divides_passes else 1)
        except ModelError:
            raise
        except Exception as error:
            # The exceptions of ONNX Runtime have no common base class.
            problem = f"the encoder in {str(self.path)!r} cannot be loaded ({_reason(error)})"
            raise ModelError(problem, COPY_AGAIN) from error

    def abandon(self) -> None:
        """Leave the session of the parent alone in a forked process. Its end would wait for threads that are gone."""
        self._lock, self._threads = threading.Lock(), None
        if self._session is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._session))
            self._session = None

    @property
    def threads(self) -> ThreadPoolExecutor | None:
        """Threads for passes or batches of their own. None if all threads of ONNX Runtime work on each pass."""
        if self.divides_passes or self.n_threads == 1:
            return None
        with self._lock:
            self._threads = self._threads or ThreadPoolExecutor(self.n_threads, "encoder", _become_helper)
            return self._threads

    def read_passes(self, passes: Sequence[tuple[Integers, Integers]]) -> Generator[Array, None, None]:
        """Encode groups of windows, and yield the vectors of each. Shapes: as of :meth:`read`.

        Those that no thread has begun are left out if the generator is closed.
        """
        # A helper has one thread for its batch.
        threads = None if len(passes) == 1 or getattr(_THIS_THREAD, "is_helper", False) else self.threads
        if threads is None:
            yield from starmap(self.read, passes)
        else:
            yield from threads.map(self.read, *zip(*passes, strict=True))

    def read(self, ids: Integers, mask: Integers) -> Array:
        """Encode windows. Shapes: ids, mask (n_windows, n_pieces); returns (n_windows, n_pieces, width)."""
        session = self._session
        if session is None:
            with self._lock:
                session = self._session = self._session or self._start()
        given = {name: value for name, value in zip(INPUTS, (ids, mask), strict=True) if name in self._names}
        try:
            found: Array = session.run([OUTPUT], given)[0]
        except Exception as error:
            if "allocate memory" in str(error) or "bad_alloc" in str(error):
                raise MemoryError(_reason(error)) from error
            raise
        return found


_SESSIONS: weakref.WeakSet[Session] = weakref.WeakSet()


def _abandon_sessions() -> None:
    """Let a forked process end, which would wait for threads of ONNX Runtime that only its parent has."""
    if "onnxruntime" not in sys.modules:
        return
    for session in tuple(_SESSIONS):
        session.abandon()
    # ONNX Runtime also waits when the process exits. This ends the process first, with its exit code, after Python has
    # flushed its files.
    library = ctypes.CDLL(None)
    if hasattr(library, "on_exit"):
        library.on_exit(library._exit, None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_sessions)


def _check_files(folder: Path, checksums: Mapping[str, str], export: Mapping[str, Any]) -> None:
    """Compare the files with their CRC-32. ``info`` compares the SHA-256, which would take most of the start-up."""
    known = export.get("crc32")
    for name in checksums:
        path = folder / name
        if Path(name).name != name or not path.is_file():
            raise ModelError(f"{name!r} is missing from the model in {str(folder)!r}", COPY_AGAIN)
        if not isinstance(known, dict) or file_crc32(path) != known.get(name):
            raise ModelError(f"{str(path)!r} does not match its checksum in config.json", COPY_AGAIN)


def _reason(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _load_tokenizer(path: Path) -> Any:
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:
        # tokenizers raises plain exceptions.
        raise ModelError(f"the tokenizer in {str(path)!r} cannot be read ({error})", COPY_AGAIN) from error


def _find_markers(settings: ModelSettings, schema: Schema, ids: Mapping[str, int]) -> Markers:
    return Markers({name: int(ids[name]) for name in marker_names(settings.fusion, schema.entity_types)})


def _load_weights(path: Path) -> dict[str, Array]:
    """Read all weights but those of the pretrained encoder, which ONNX Runtime reads."""
    weights = read_tensors(path, lambda name: not name.startswith(ENCODER_WEIGHTS))
    for name, value in weights.items():
        if not bool(np.isfinite(value).all()):
            raise ModelError(f"the weight {name} in {str(path)!r} is not finite", COPY_AGAIN)
    return weights
