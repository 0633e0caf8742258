"""A tiny model on disk, generated texts, an engine in this process, and tables as plain rows."""

import hashlib
import json
import random

from tests.small_models import SENTENCES, small_model, spread_probabilities

from cascade_srn.apps.corpus.engine import ShardFailure
from cascade_srn.apps.corpus.inputs import InputSettings
from cascade_srn.apps.corpus.job import run
from cascade_srn.apps.corpus.settings import CorpusSettings
from cascade_srn.apps.corpus.tables import TABLES
from cascade_srn.apps.corpus.worker import ShardWorker

WORDS = sorted({word for sentence in SENTENCES for word in sentence.words if word.isalpha()})


def save_model(folder, *, seed=0):
    """Save a random model that finds entities and relations in :func:`texts`."""
    model = spread_probabilities(small_model(thresholds={"entity": 0.6, "subject": 0.4, "object": 0.4}), seed=seed)
    model.save(folder)
    return folder


def texts(number, *, seed=0, n_sentences=3):
    """Return texts of random words."""
    rng = random.Random(seed)
    return [
        " ".join(" ".join(rng.choices(WORDS, k=rng.randint(3, 12))).capitalize() + "." for _ in range(n_sentences))
        for _ in range(number)
    ]


def write_lines(path, given):
    """Write texts, or records, as JSON lines."""
    records = [{"id": f"d{n}", "text": one} if isinstance(one, str) else one for n, one in enumerate(given)]
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


class InProcessEngine:
    """Processes shards here, one after the other.

    ``before`` is called with each shard before it is processed. An exception that it raises ends the run, and a string
    that it returns is the reason of a failure.
    """

    def __init__(self, before=lambda shard: None):
        self.before = before
        self.processed = []

    def run(self, job, shards, control):
        worker = ShardWorker(job)
        for shard in shards:
            if control.stopping:
                return
            reason = self.before(shard)
            self.processed.append(shard.id)
            yield worker.process(shard) if reason is None else ShardFailure(shard.id, reason, 3)


def settings(*, shard_documents=4, inputs=None, **given):
    """Return settings with small shards on the CPU."""
    chosen = InputSettings(shard_documents=shard_documents, **(inputs or {}))
    return CorpusSettings(inputs=chosen, **{"device": "cpu", "overlaps": "flat", **given})


def run_here(source, output, model, *, before=lambda shard: None, resume=False, progress=None, array=None, **given):
    """Run a job in this process, and return its report and the ids of the processed shards."""
    engine = InProcessEngine(before)
    report = run(
        source, output, model=model, engine=engine, resume=resume, progress=progress, array=array,
        settings=settings(**given),
    )  # fmt: skip
    return report, engine.processed


def rows_of(output, table):
    """Return the rows of a table of all shards, in order."""
    import pyarrow.parquet as pq

    paths = sorted((output / table).iterdir())
    return [row for path in paths for row in pq.read_table(path).to_pylist()]


def fingerprints(output):
    """Return the SHA-256 of each file of the tables."""
    return {
        f"{table}/{path.name}": hashlib.sha256(path.read_bytes()).hexdigest()
        for table in TABLES
        for path in sorted((output / table).iterdir())
    }


def members(output):
    """Return the names of everything in the output folder, hidden files included."""
    return sorted(path.name for path in output.iterdir())
