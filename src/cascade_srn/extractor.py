"""The main entry point for users: text in, entities and relations out."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Sized
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from cascade_srn.config import CONSTRAINTS, Thresholds, check_overlaps, require_choice, require_range
from cascade_srn.errors import CascadeError, ConfigError, ModelError
from cascade_srn.formats.alignment import Align, place_entities
from cascade_srn.formats.label_filter import select_labels
from cascade_srn.inference.batching import release_freed_memory
from cascade_srn.inference.options import (
    PrecisionChoice,
    PrecisionLike,
    ThresholdsLike,
    parse_precision,
    resolve_thresholds,
)
from cascade_srn.inference.precision import MinScores, PrecisionRecord, find_min_scores, settings_checksum
from cascade_srn.inference.predictor import (
    BaseModel,
    Predictor,
    check_characters,
    list_documents,
    never_stop,
    refuse_forked,
)
from cascade_srn.inference.streaming import (
    BadText,
    Context,
    LabelChoice,
    OnError,
    Outcome,
    StreamOptions,
    attempt,
    error_policy,
    finish,
    show_progress,
    split_into_parts,
    split_pairs,
)
from cascade_srn.model.folder import missing_for_torch, read_config, read_export, runs_light
from cascade_srn.network.examples import Example, examples_of
from cascade_srn.runs.resources import lacks_bf16
from cascade_srn.schema import Schema
from cascade_srn.storage.bundled import find_model as find_model
from cascade_srn.text.segment import Segmenter, make_segmenter, segment
from cascade_srn.types import Document, Entity

if TYPE_CHECKING:
    import torch

    from cascade_srn.encoder.pieces import Row
    from cascade_srn.inference.ahead import SplitPool


class Extractor:
    """Extracts entities and relations from text with a trained model.

    An extractor can be used from several threads at once, except for :meth:`to`. It can be pickled for other processes.
    In ONNX Runtime the copy reads the encoder from the model folder again. With PyTorch, start processes with "spawn".

    These options are the same in all methods. ``thresholds`` is one number for all three turns, a mapping of those that
    differ from the model, such as ``{"entity": 0.4, "PART-OF": 0.3}`` with turns and labels, or :class:`.Thresholds`.
    None means those of the model. ``labels`` are the labels to return: if none of them is an entity type, entities of
    all types are returned; if none is a relation type, relations of all types. None means all labels. ``overlaps`` is
    the treatment of entities that share words: "flat" keeps the best of them, so that no two entities share a word,
    "nested" keeps entities inside others, and "all" keeps everything. None means that of the extractor.

    Args:
        model: The model: a :class:`.Model`, or one that was exported. It is switched to evaluation mode.
        segmenter: Splits texts into sentences and words.
        precision: Levels of precision to promise, such as 0.6 or ``{"relations": 0.6, "entities": 0.9}``, also by
            label. Predictions with too low a score are left out (docs/precision.md). A word is the number format of
            the pretrained encoder: "float32", "bf16", or "auto" for bf16 on a GPU and float32 elsewhere. CPUs with
            bf16 instructions, such as Intel AMX, are several times faster with "bf16". Both: "relations=0.6,bf16".
        overlaps: Treatment of entities that share words. None: the choice stored with the model, else "flat".
        constraints: "on" applies the constraints of the schema to relations, "off" does not. None: the choice of the
            model.
        skip: Parts of the texts to leave out: "references", "code", "tables". Only the default segmenter finds them.
        cuda_graphs: Whether a GPU replays batches as CUDA graphs, which makes single sentences several times
            faster. The first predictions of each length are slower.

    Example:
        >>> extractor = Extractor.from_pretrained()
        >>> document = extractor.extract("We train a CRF for named entity recognition.")
        >>> for entity in document.entities:
        ...     print(entity.text, entity.label, entity.start, entity.end, f"{entity.score:.1f}", sep=" | ")
        CRF | Method | 11 | 14 | 0.9
        named entity recognition | Task | 19 | 43 | 0.9
        >>> for relation in document.relations:
        ...     print(relation.head.text, relation.label, relation.tail.text, f"{relation.score:.1f}", sep=" | ")
        CRF | USED-FOR | named entity recognition | 0.8
    """

    def __init__(
        self,
        model: BaseModel,
        *,
        segmenter: Segmenter = segment,
        precision: PrecisionLike = "auto",
        overlaps: str | None = None,
        constraints: str | None = None,
        skip: Collection[str] = (),
        cuda_graphs: bool = True,
    ) -> None:
        choice = parse_precision(precision)
        check_overlaps(overlaps)
        if constraints is not None:
            require_choice("constraints", constraints, CONSTRAINTS, option="constraints")
        if constraints == "on" and not (model.schema.constraints or model.schema.symmetric):
            raise ConfigError(
                "the schema of the model has no constraints and no symmetric relations",
                "Learn constraints from the training data by calibrating the model",
                option="constraints",
            )
        model.check_precision(choice.number_format)
        self.model = model
        self.overlaps = model.overlaps if overlaps is None else overlaps
        self.precision = choice.number_format
        self.levels = choice.levels
        self.constraints = model.settings.constraints if constraints is None else constraints
        self.segmenter = make_segmenter(segmenter, skip)
        self.cuda_graphs = cuda_graphs
        self.min_scores = self.promise(choice) if choice.levels else None
        model.eval()

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path | None = None,
        *,
        device: str | torch.device = "auto",
        precision: PrecisionLike = "auto",
        segmenter: Segmenter = segment,
        overlaps: str | None = None,
        constraints: str | None = None,
        skip: Collection[str] = (),
        cuda_graphs: bool = True,
        runtime: str | None = None,
    ) -> Extractor:
        """Load a model.

        Args:
            name: A model folder, also one of an exported model, the name of a bundled model, or a hub id. None: the
                default bundled model.
            device: Device of the model, such as "cpu" or "cuda". "auto": the GPU if there is one.
            precision: Levels of precision to promise, or the number format of the encoder. See :class:`Extractor`.
            segmenter: Splits texts into sentences and words.
            overlaps: Treatment of entities that share words. See :class:`Extractor`.
            constraints: Whether to apply the constraints of the schema. See :class:`Extractor`.
            skip: Parts of the texts to leave out. See :class:`Extractor`.
            cuda_graphs: Whether a GPU replays batches as CUDA graphs. See :class:`Extractor`.
            runtime: What runs a model that also runs without torch, as the bundled one does. "auto": ONNX Runtime on a
                CPU in float32, where it starts sooner and is faster, else torch. "torch": torch, for a model that is to
                be changed, saved or moved to another device. None: the variable ``CASCADE_SRN_RUNTIME``, else "auto".

        Raises:
            ModelError: If the model cannot be found or is damaged.
            ConfigError: If the device is not available, a level of precision cannot be promised, or ``overlaps``,
                ``skip`` or ``runtime`` is wrong.
        """
        check_overlaps(overlaps)
        segmenter = make_segmenter(segmenter, skip)
        model = load_model(find_model(name), device=str(device), precision=precision, runtime=runtime)
        extractor = cls(
            model,
            precision=precision,
            segmenter=segmenter,
            overlaps=overlaps,
            constraints=constraints,
            cuda_graphs=cuda_graphs,
        ).to(device)
        if extractor.precision == "bf16" and getattr(model.device, "type", None) == "cpu" and lacks_bf16():
            warnings.warn("this CPU has no bf16 instructions, so that bf16 is slower than float32", stacklevel=2)
        return extractor

    def save_pretrained(self, folder: str | Path, *, card: str | None = None) -> None:
        """Write the model to a folder that :meth:`from_pretrained` can read. See :meth:`.Model.save`."""
        if not hasattr(self.model, "save"):
            raise ModelError(
                "a model in ONNX Runtime cannot be saved again",
                "Copy its folder, or load the model that it was exported from with runtime='torch'",
            )
        self.model.save(folder, card=card)

    def push_to_hub(
        self,
        repo_id: str,
        *,
        private: bool = True,
        message: str | None = None,
        revision: str | None = None,
        token: str | None = None,
    ) -> str:
        """Upload the model to a repository of the Hugging Face hub, in one commit. See :func:`.push_model`.

        Args:
            repo_id: "owner/name". The repository is created if it is missing.
            private: Create a private repository, and refuse one that is public.
            message: Message of the commit.
            revision: Branch. None: the main branch.
            token: Token with the right to write. None: that of the environment (HF_TOKEN) or of the last login.

        Returns:
            The address of the commit.

        Raises:
            ModelError: There is no token, the hub cannot be reached, or it refuses the request.
        """
        from tempfile import TemporaryDirectory

        from cascade_srn.model.info import push_model

        with TemporaryDirectory() as parent:
            folder = Path(parent) / "model"
            self.save_pretrained(folder)
            return push_model(folder, repo_id, private=private, message=message, revision=revision, token=token)

    @property
    def schema(self) -> Schema:
        """The labels of the model."""
        return self.model.schema

    def find_precision_record(self) -> PrecisionRecord | None:
        """Return the precision statistics of the model, or None if there are none, or not with these settings."""
        record = self.model.precision_record
        used = settings_checksum(self.model.settings, self.overlaps, self.constraints)
        return record if record is not None and record.settings == used else None

    def promise(self, choice: PrecisionChoice) -> MinScores:
        """Find the scores from which the model promises levels of precision.

        Raises:
            ConfigError: If a level cannot be promised.
        """
        record = self.find_precision_record()
        if record is None:
            raise ConfigError(
                "no precision can be promised, because the model has no precision statistics of these settings",
                "Calibrate the model on annotated documents (cascade-srn calibrate)",
                option="precision",
            )
        return find_min_scores(record, self.schema, choice)

    def check_promise(
        self, thresholds: Thresholds, overlaps: str, *, given_entities: bool = False, promised: bool = False
    ) -> None:
        """Refuse options under which a promised precision may not hold. ``promised``: in this call only."""
        same = (thresholds, overlaps) == (self.model.settings.thresholds, self.overlaps)
        if (promised or self.min_scores is not None) and (given_entities or not same):
            raise ConfigError(
                "a precision is promised for the thresholds and overlaps of the model, without given entities",
                "Leave them out, or promise no precision",
                option="precision",
            )

    def to(self, device: str | torch.device) -> Extractor:
        """Move the model to a device, or to the GPU if there is one with "auto". Do not call this during an extraction.

        Raises:
            ConfigError: If the device is not available.
        """
        self.model.to(device)
        return self

    def warm_up(self) -> Extractor:
        """Prepare for single sentences, so that the first ones are as fast as later ones.

        On a GPU this captures CUDA graphs, which takes some seconds.
        """
        if self.cuda_graphs:
            self.model.capture_cuda_graphs(self.predictor().bf16)
        return self

    def __repr__(self) -> str:
        settings, device = self.model.settings, self.model.device or "cpu"
        return (
            f"Extractor(encoder={settings.encoder.name!r}, entity_types={list(self.schema.entity_types)}, "
            f"relation_types={list(self.schema.relation_types)}, overlaps={self.overlaps!r}, device={str(device)!r})"
        )

    @overload
    def __call__(self, texts: str | Document, **options: Any) -> Document: ...

    @overload
    def __call__(self, texts: Iterable[str | Document], **options: Any) -> list[Document]: ...

    def __call__(self, texts: str | Document | Iterable[str | Document], **options: Any) -> Document | list[Document]:
        """Extract entities and relations from one text, or from a list of texts.

        Args:
            texts: A text or a :class:`.Document`, or several of them.
            options: Those of :meth:`extract` for one text, and those of :meth:`stream` for several.

        Returns:
            A document for one text, and a list of documents for several.

        Example:
            >>> [len(document.entities) for document in extractor(["We train a CRF.", "It beats an HMM."])]
            [1, 2]
        """
        if isinstance(texts, str | Document) or not isinstance(texts, Iterable):
            return self.extract(texts, **options)
        return list(self.stream(texts, **options))

    def extract(
        self,
        text: str | Document,
        *,
        labels: LabelChoice | None = None,
        thresholds: ThresholdsLike | None = None,
        overlaps: str | None = None,
    ) -> Document:
        """Extract entities and relations from one text.

        Args:
            text: The text, or a :class:`.Document` if its sentences and words are known.
            labels: Labels to return. See :class:`Extractor`.
            thresholds: Minimum scores. See :class:`Extractor`.
            overlaps: Treatment of entities that share words. See :class:`Extractor`.

        Returns:
            A document with the annotations of the model.

        Raises:
            CascadeError: If the text is not a string, or contains an unpaired surrogate.
        """
        if isinstance(text, list | tuple):
            raise CascadeError(
                f"text is a {type(text).__name__}, not a single text",
                "Use extractor(texts) for a list of documents, or extractor.stream(texts) to read them one by one",
            )
        return self.predict([self._document(text)], labels=labels, thresholds=thresholds, overlaps=overlaps)[0]

    @overload
    def stream(
        self, texts: Iterable[str | Document], *, as_tuples: Literal[False] = False, **options: Unpack[StreamOptions]
    ) -> Iterator[Document]: ...

    @overload
    def stream(
        self,
        texts: Iterable[tuple[str | Document, Context]],
        *,
        as_tuples: Literal[True],
        **options: Unpack[StreamOptions],
    ) -> Iterator[tuple[Document, Context]]: ...

    def stream(
        self,
        texts: Iterable[Any],
        *,
        as_tuples: bool = False,
        batch_words: int | None = None,
        labels: LabelChoice | None = None,
        thresholds: ThresholdsLike | None = None,
        overlaps: str | None = None,
        on_error: OnError = "raise",
        progress: bool = False,
        workers: int = 0,
    ) -> Iterator[Any]:
        """Extract entities and relations from any number of texts.

        Texts are read in parts of at most about sixteen batches, so that sentences of similar length are encoded
        together. If the iterable itself raises an error, the documents before it are yielded first.

        Args:
            texts: The texts or documents.
            as_tuples: ``texts`` has pairs of a text and a context, which can be anything. Documents are yielded in
                pairs with the context of their text.
            batch_words: Maximum number of words per batch, padding included. None: 4,096, and 16,384 on a GPU.
            labels: Labels to return. See :class:`Extractor`.
            thresholds: Minimum scores. See :class:`Extractor`.
            overlaps: Treatment of entities that share words. See :class:`Extractor`.
            on_error: What to do with a text that cannot be processed: "raise" raises its error, after the documents
                before it; "warn" skips it with a warning and "skip" without one. A function is called with the
                :class:`.BadText`. It returns a document to yield instead, or None.
            progress: Show a progress bar on standard error.
            workers: Number of processes that split and tokenize texts ahead of the model, with the same results. Six to
                eight keep a fast GPU busy that would wait for this process. A CPU has no use for them. More texts are
                read ahead: about as many as two parts have.

        Yields:
            A document for each text, in order.

        Raises:
            CascadeError: If ``texts`` is not an iterable of texts.

        Example:
            >>> for document in extractor.stream(["We train a CRF.", "It beats an HMM."]):
            ...     print([(entity.text, entity.label) for entity in document.entities])
            [('CRF', 'Method')]
            [('It', 'Generic'), ('HMM', 'Method')]
            >>> for document, key in extractor.stream([("We train a CRF.", "p1")], as_tuples=True):
            ...     print(key, document)
            p1 Document('We train a CRF.', n_sentences=1, n_entities=1, n_relations=0)
        """
        if isinstance(texts, str | bytes | Document) or not isinstance(texts, Iterable):
            raise CascadeError(
                f"texts is a {type(texts).__name__}, not an iterable of texts",
                "Pass [text], or use extract for a single text",
            )
        policy, predictor = error_policy(on_error), self.predictor(thresholds, batch_words, overlaps=overlaps)
        self._check_choice(labels)
        contexts: deque[Any] = deque()
        n_texts = len(texts) if isinstance(texts, Sized) else None
        given = split_pairs(texts, contexts) if as_tuples else iter(texts)
        require_range("workers", workers, 0)
        pool = self._split_pool(workers, predictor.batch_words) if workers else None
        results: Iterator[Document | None] = self._stream(given, predictor, policy, pool)
        results = show_progress(results, n_texts) if progress else results
        return finish(results, contexts if as_tuples else None, labels)

    def _stream(
        self,
        texts: Iterator[str | Document],
        predictor: Predictor,
        policy: Callable[[BadText], Document | None],
        pool: SplitPool | None,
    ) -> Iterator[Document | None]:
        """Yield a document for each text, or None if it is skipped."""
        rows: dict[int, list[Row]] = {} if pool is None else pool.rows

        def predict(numbered: Sequence[tuple[int, Document]]) -> list[Document]:
            made = [rows.get(position) for position, _ in numbered]
            return self._predict([document for _, document in numbered], predictor, rows=made)

        done, batch_words = 0, predictor.batch_words
        split = (self._split(*numbered) for numbered in enumerate(texts)) if pool is None else pool.run(texts)
        # Closed here, so that no worker is left if the caller or the model stops.
        with closing(split) as outcomes:
            for part in split_into_parts(outcomes, batch_words):
                good = [(at, outcome) for at, outcome in enumerate(part, done) if isinstance(outcome, Document)]
                predicted = attempt(good, predict)
                rows.clear()
                for at, outcome in enumerate(part, done):
                    result = predicted.get(at, outcome)
                    yield policy(result) if isinstance(result, BadText) else result
                done += len(part)
                release_freed_memory()

    def _split(self, position: int, text: str | Document) -> Outcome:
        """Split a text into sentences and words. A segmenter of the caller may raise any error."""
        try:
            return self._document(text)
        except Exception as error:
            return BadText(position, text, error)

    def _split_pool(self, n_workers: int, batch_words: int) -> SplitPool:
        from cascade_srn.inference.ahead import SplitPool

        # The pieces of a context depend on the sentences around it, and are made with the batches.
        pieces = None if self.model.settings.encoder.context_words else self.model.collator.pieces
        return SplitPool(n_workers, self.segmenter, pieces, self._split, batch_words)

    def relations(
        self,
        text: str | Document,
        entities: Sequence[Entity],
        *,
        thresholds: ThresholdsLike | None = None,
        align: Align = "exact",
    ) -> Document:
        """Extract relations between given entities, with turns 2 and 3 only.

        Args:
            text: The text, or a :class:`.Document`.
            entities: The entities, by character offsets. All of them are kept, also those that share words.
            thresholds: Minimum scores. See :class:`Extractor`.
            align: "exact" refuses an entity that does not start and end at word boundaries. "expand" expands it to
                whole words, with a warning.

        Returns:
            A document with the given entities and the relations of the model.

        Raises:
            AnnotationError: If an entity is outside the text or not at word boundaries.
            CascadeError: If an entity is repeated or has an invalid score.
            SchemaError: If the model does not have the label of an entity.

        Example:
            >>> entities = [Entity(0, 4, "Method"), Entity(13, 20, "Task")]
            >>> for relation in extractor.relations("CRFs work on tagging.", entities).relations:
            ...     print(relation.head.text, relation.label, relation.tail.text, sep=" | ")
            CRFs | USED-FOR | tagging
        """
        given = self.prepare(text, entities, align=align)
        placed = {(entity.start, entity.end) for entity in given.entities}
        if n_expanded := sum((entity.start, entity.end) not in placed for entity in entities):
            warnings.warn(f"{n_expanded} of {len(entities)} entities were expanded to whole words", stacklevel=2)
        return self._predict([given], self.predictor(thresholds), given_entities=True)[0]

    def prepare(
        self, text: str | Document, entities: Sequence[Entity] | None = None, *, align: Align = "exact"
    ) -> Document:
        """Split a text into sentences and words, and place given entities on the words.

        Args:
            text: The text, or a :class:`.Document`.
            entities: The entities, by character offsets. None: no entities are given.
            align: See :meth:`relations`.

        Returns:
            A document with the given entities, ready for :meth:`predict`.
        """
        document = self._document(text)
        if entities is None:
            return document
        self.check_promise(self.model.settings.thresholds, self.overlaps, given_entities=True)
        given = place_entities(document, entities, align)
        self._check_labels(given)
        return given

    def predict(
        self,
        documents: Iterable[Document],
        *,
        given_entities: bool = False,
        batch_words: int | None = None,
        labels: LabelChoice | None = None,
        thresholds: ThresholdsLike | None = None,
        overlaps: str | None = None,
    ) -> list[Document]:
        """Annotate documents.

        Args:
            documents: The documents. Their annotations are replaced.
            given_entities: Keep the entities and coreference clusters of the documents, and predict relations only.
            batch_words: Maximum number of words per batch, padding included. None: 4,096, and 16,384 on a GPU.
            labels: Labels to return. See :class:`Extractor`.
            thresholds: Minimum scores. See :class:`Extractor`.
            overlaps: Treatment of entities that share words. See :class:`Extractor`. Given entities are all kept.

        Returns:
            The annotated documents, in order.

        Raises:
            CascadeError: If an item is not a document.
            SchemaError: If the model does not have the label of a given entity.
        """
        predictor = self.predictor(thresholds, batch_words, overlaps=overlaps)
        self.check_promise(predictor.thresholds, predictor.overlaps, given_entities=given_entities)
        self._check_choice(labels)
        documents = list_documents(documents)
        for document in documents:
            check_characters(document.text)
            if given_entities:
                self._check_labels(document)
        predicted = self._predict(documents, predictor, given_entities=given_entities)
        if given_entities:
            # Coreference clusters may refer to the given entities.
            pairs = zip(documents, predicted, strict=True)
            predicted = [replace(after, clusters=before.clusters) for before, after in pairs]
        return predicted if labels is None else [document.filter(labels=labels) for document in predicted]

    def _check_choice(self, labels: LabelChoice | None) -> None:
        """Raise an error for labels that the model does not have, before anything is predicted."""
        if labels is not None:
            select_labels(labels, self.schema)

    def _check_labels(self, document: Document) -> None:
        of_document = f" of document {document.id!r}" if document.id else ""
        for number, sentence in enumerate(document.sentences):
            self.schema.check(sentence.annotated(sentence.entities, ()), f"sentence {number}{of_document}")

    def predictor(
        self,
        thresholds: ThresholdsLike | None = None,
        batch_words: int | None = None,
        *,
        overlaps: str | None = None,
        check: Callable[[], None] = never_stop,
    ) -> Predictor:
        """Make a predictor with the precision of this extractor. ``check`` may raise to stop it."""
        own = self.model.settings.thresholds
        chosen = own if thresholds is None else resolve_thresholds(thresholds, own, self.schema)
        overlaps = self.overlaps if overlaps is None else overlaps
        self.check_promise(chosen, overlaps)
        return self.model.predictor(
            thresholds=chosen,
            overlaps=overlaps,
            constraints=self.constraints,
            batch_words=batch_words,
            precision=self.precision,
            check=check,
            cuda_graphs=self.cuda_graphs,
            min_scores=self.min_scores,
        )

    def examples(self, documents: Iterable[Document]) -> list[Example]:
        """Return the sentences of documents with the context that the model reads."""
        return examples_of(documents, self.model.settings.encoder.context_words)

    def _predict(
        self,
        documents: Sequence[Document],
        predictor: Predictor,
        *,
        given_entities: bool = False,
        rows: Sequence[list[Row] | None] = (),
    ) -> list[Document]:
        """Annotate documents. ``rows`` are those of their sentences, or None for a document without any."""
        refuse_forked(survives=self.model.survives_fork)
        examples = [] if rows else self.examples(documents)
        for document, made in zip(documents, rows, strict=False):
            if made is None:
                examples += self.examples([document])
            else:
                examples += [Example(sentence, row=row) for sentence, row in zip(document.sentences, made, strict=True)]
        found = iter(predictor.predict(examples, given_entities=given_entities))
        return [
            Document.unchecked(d.text, tuple(islice(found, len(d.sentences))), d.id, self.schema) for d in documents
        ]

    def _document(self, text: str | Document) -> Document:
        if not isinstance(text, str | Document):
            raise CascadeError(f"a text is a {type(text).__name__}, not a string", "Give a str or a Document")
        check_characters(text if isinstance(text, str) else text.text)
        return Document.from_text(text, segmenter=self.segmenter) if isinstance(text, str) else text


def load_model(
    folder: Path, *, device: str = "auto", precision: PrecisionLike = "auto", runtime: str | None = None
) -> BaseModel:
    """Load a model in torch, or in ONNX Runtime. See :func:`.runs_light`."""
    missing, problem = missing_for_torch(), ""
    if runs_light(folder, device, precision, runtime):
        from cascade_srn.runtime.model import LightModel

        try:
            return LightModel.load(folder)
        except ModelError as error:
            # Files of ONNX Runtime that were made for other weights are no problem for torch, which reports all others.
            if read_export(folder) is not None:
                raise
            read_config(folder)  # raises the problems of both forms
            if missing:
                hint = f"{error.hint}. It may still run in PyTorch (pip install 'cascade-srn[train]')"
                raise ModelError(error.problem, hint) from error
            problem = error.problem
    if missing:
        raise ModelError(
            f"the model in {str(folder)!r} needs {' and '.join(missing)}, which this installation does not have",
            "Run pip install 'cascade-srn[train]', or use a model that runs without torch",
        )
    from cascade_srn.model.model import Model

    model = Model.load(folder)
    if problem:
        warnings.warn(f"PyTorch is used instead, because {problem}", stacklevel=3)
    return model
