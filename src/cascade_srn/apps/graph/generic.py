"""Mentions that name nothing on their own, such as pronouns and "this method", and what they stand for."""

from collections.abc import Collection

from cascade_srn.apps.graph.normalise import DETERMINERS, normalise, squeeze
from cascade_srn.types import Document, Mention

COREFERENCE = "coreference"
"""Step of mentions that are in the graph because of a cluster."""

_PRONOUN_LIST = """
    i we you he she it they me us him them mine ours yours his hers theirs one ones this that these those which who
    whom whose what itself themselves himself herself ourselves each other others another both all some any none
    former latter same such there here
"""
# Words that do not narrow a noun down: "the new method" is as generic as "the method".
_MODIFIER_LIST = """
    above additional aforementioned all alternative another available baseline best better both certain common
    competing corresponding current different earlier effective efficient entire existing final first following
    former four further general given good important individual initial large larger latter main many more most
    multiple new newly next novel numerous original other overall own particular popular powerful present presented
    previous previously prior promising proposed recent recently related relevant respective resulting same second
    several similar simple single small smaller so-called sota specific standard state-of-the-art strong suitable third
    three traditional two typical underlying unified useful various very well-known whole widely-used
"""
_NOUN_LIST = """
    algorithm analysis application approach architecture area aspect baseline case challenge component concept
    contribution corpus data dataset datum design example experiment factor finding framework goal idea
    implementation improvement instance issue item kind mechanism method methodology metric model module paper part
    performance phenomenon problem procedure process property purpose resource result sample setting setup solution
    step strategy study subtask system task technique technology tool type unit variant version way work
"""
# "data set" has two.
_MAX_WORDS = 2
_PRONOUNS = frozenset(_PRONOUN_LIST.split())
_MODIFIERS = DETERMINERS | frozenset(_MODIFIER_LIST.split())
_NOUNS = frozenset(_NOUN_LIST.split())


def is_generic(text: str) -> bool:
    """Return whether a mention is a pronoun, or a general noun without a word that narrows it down.

    Example:
        >>> [is_generic(text) for text in ("it", "this method", "our new approaches", "methods", "kernel method", "US")]
        [True, True, True, True, False, False]
    """
    words = text.split()
    if len(words) == 1 and (words[0] in _PRONOUNS or (words[0].lower() in _PRONOUNS and not words[0].isupper())):
        return True
    rest = [word for word in words if word.lower() not in _MODIFIERS]
    if len(rest) > _MAX_WORDS:
        return False
    noun = normalise(" ".join(rest))
    return not noun or squeeze(noun) in _NOUNS


def find_antecedents(document: Document, generic_labels: Collection[str] = ()) -> dict[int, int]:
    """Return the entity that each generic entity of a cluster stands for, by their positions in the document.

    That is the nearest entity of the cluster before it that is not generic, or the first one after it.

    Args:
        document: A document with coreference clusters.
        generic_labels: Entity types whose mentions are generic, whatever their words are.

    Example:
        >>> from cascade_srn import Document, Sentence, Span
        >>> words = [["A", "CRF", "works", "."], ["It", "is", "old", "."]]
        >>> spans = [Span(1, 2, "Method")], [Span(0, 1, "Generic")]
        >>> sentences = [Sentence.from_words(each, found) for each, found in zip(words, spans)]
        >>> clusters = [[Mention(0, 1, 2), Mention(1, 0, 1)]]
        >>> find_antecedents(Document.from_sentences(sentences, clusters=clusters), ["Generic"])
        {1: 0}
    """
    positions: dict[Mention, int] = {}
    generic: set[int] = set()
    position = 0
    for number, sentence in enumerate(document.sentences):
        for span in sentence.entities:
            first, last = sentence.offsets[span.start][0], sentence.offsets[span.end - 1][1]
            is_name = span.label not in generic_labels and not is_generic(document.text[first:last])
            mention = Mention(number, span.start, span.end)
            # An entity may have several types. A name among them stands for the mention.
            if mention not in positions or (is_name and positions[mention] in generic):
                positions[mention] = position
            if not is_name:
                generic.add(position)
            position += 1
    found: dict[int, int] = {}
    for cluster in document.clusters:
        members = sorted(positions[mention] for mention in cluster if mention in positions)
        names = [member for member in members if member not in generic]
        for member in members:
            if member in generic and names:
                found[member] = max((name for name in names if name < member), default=names[0])
    return found
