"""A worker of a corpus job on Ray, and the checks of the node that it runs on."""

import socket
import warnings
from collections.abc import Callable
from pathlib import Path

from cascade_srn.apps.corpus.engine import JobError
from cascade_srn.apps.corpus.local import start_worker
from cascade_srn.apps.corpus.manifest import JobFolder, Manifest
from cascade_srn.apps.corpus.settings import JobSpec
from cascade_srn.apps.corpus.shards import Shard, ShardResult
from cascade_srn.errors import CascadeError
from cascade_srn.inference.streaming import describe_error
from cascade_srn.runs.folder import differences
from cascade_srn.runtime.device import Slot


class RayWorker:
    """Actor that processes shards. Errors are returned, so that they reach the driver unchanged."""

    def __init__(self, start: Callable[[JobSpec, Slot], Callable[..., ShardResult]], job: JobSpec, slot: Slot) -> None:
        self._problem: CascadeError | None = None
        try:
            self._function = start(job, slot)
        except CascadeError as error:
            self._problem = error

    def ready(self) -> CascadeError | None:
        """Return why the worker cannot work; None if it can."""
        return self._problem

    def process(self, shard: Shard, attempt: int) -> tuple[ShardResult | JobError | str, list[str]]:
        """Process a shard. Return the result, a reason to stop the job, or why the shard failed; and the warnings."""
        with warnings.catch_warnings(record=True) as caught:
            outcome = self._process(shard, attempt)
        return outcome, [str(warning.message) for warning in caught]

    def _process(self, shard: Shard, attempt: int) -> ShardResult | JobError | str:
        try:
            return self._function(shard, attempt)
        except JobError as error:
            return error
        except Exception as error:
            return describe_error(error)

    def alive(self) -> None:
        """Answer while the other thread is at a shard."""


def start_on_node(job: JobSpec, slot: Slot) -> Callable[..., ShardResult]:
    """Load the model in a worker process, after a look at its node."""
    check_node(job)
    return start_worker(job, slot)


def check_node(job: JobSpec) -> None:
    """Refuse a node that does not see the output, the model or the input of a job, or has other software.

    Raises:
        JobError: With the name of the node.
    """
    node = socket.gethostname()
    local = [file.address for file in job.files if "://" not in file.address]
    needed = (("output folder", job.scratch_path), ("model", Path(job.model)), *(("input", Path(p)) for p in local[:1]))
    for name, path in needed:
        if not path.exists():
            shown = job.output_path if name == "output folder" else path
            raise JobError(
                f"the {name} {str(shown)!r} does not exist on the node {node!r}",
                "Put output, input and model on storage that all nodes see under the same path",
            )
    software = JobFolder(job.output_path).read_manifest().software
    for name, wanted, found in differences(
        software, Manifest.describe((), Path(job.model), "", job.settings, ()).software
    ):
        raise JobError(
            f"the node {node!r} has {name} {found or 'not installed'}, but the job started with {wanted}",
            "Install the same versions on all nodes",
        )
