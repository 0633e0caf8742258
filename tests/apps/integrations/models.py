"""A tiny random model, and an extractor whose predictions are given, for tests of integrations."""

from tests.small_models import small_model, spread_probabilities

from cascade_srn import Document, Extractor
from cascade_srn.config import Thresholds
from cascade_srn.types import Span, Triple

TEXTS = ("a tagger helps parsing and search engines.", "Taggers and parsers need data.", "accuracy measures the parser")


def save_small_model(folder):
    """Write a random model that finds something in most texts, and return its folder."""
    spread_probabilities(small_model(thresholds=Thresholds(0.4, 0.4, 0.4))).save(folder)
    return folder


class GivenExtractor(Extractor):
    """Extractor that finds given words.

    ``entities`` has the label and score of words, ``relations`` has (head, label, tail, score), the ends as words of
    one sentence. A text with the word "broken" raises an error.
    """

    def __init__(self, entities, relations):
        super().__init__(small_model())
        self.entities, self.pairs = entities, relations

    def _predict(self, documents, predictor, *, given_entities=False, rows=()):
        if any("broken" in document.text for document in documents):
            raise RuntimeError("broken")
        return [
            Document(d.text, tuple(self._annotate(sentence) for sentence in d.sentences), d.id, self.schema)
            for d in documents
        ]

    def _annotate(self, sentence):
        spans = [Span(i, i + 1, *self.entities[w]) for i, w in enumerate(sentence.words) if w in self.entities]
        by_word = {sentence.words[span.start]: span for span in reversed(spans)}
        triples = [
            Triple(by_word[head], label, by_word[tail], score)
            for head, label, tail, score in self.pairs
            if {head, tail} <= by_word.keys()
        ]
        return sentence.annotated(spans, triples)
