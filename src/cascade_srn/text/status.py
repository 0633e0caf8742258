"""Whether a sentence asserts a relation, denies it, or only considers it: cue rules for English.

A cue counts between the two entities or just before the first of them:

* Between them, a cue of a *clause* ("does not use", "may improve", "fails to") counts unless its scope ends before the
  second entity: at "but", at a semicolon, at a comma with a new clause.
* Between them, a cue of a *phrase* ("without", "instead of") counts if only a few words without a preposition or verb
  stand between it and the second entity, apart from verbs of use ("without using").
* Before them, cues count that concern the whole statement: "whether A helps B", "we do not use A for B", "no A for B".
  They do not count if both entities are in one phrase ("we do not use the shape of objects").

Comparisons, conjunctions and evaluations hold whatever the result is: "A does not outperform B" compares the two. They
are always asserted. A statement that is denied and considered at once ("may not") is denied. Cues after the second
entity are not looked at. In other languages hardly any cue matches, and relations count as asserted.
"""

import re
from collections.abc import Sequence
from functools import cache

ASSERTED, NEGATED, HEDGED = STATUSES = ("asserted", "negated", "hedged")

# Words before the first entity in which a cue is looked for.
BEFORE = 6

# Contain a cue, but deny nothing.
_HARMLESS = (
    r"not (?:only|just|merely|simply|solely|limited to|to mention|least|surprising\w*|the only|the first)|never before|"
    r"not (?:\w+ly )?(?:lower|hurt|degrade|reduce|harm|decrease|affect|sacrifice)\w*|or not|with(?: and| or) without|"
    r"(?:more|less|most|least) likely to|"
    r"no (?:less|more|later|doubt|matter|loss|degradation|decrease|drop|significant \w+)|whether or not|"
    r"without (?:any |a |much |significant )?(?:loss|losing|doubt|increas\w+|decreas\w+|sacrific\w+|degrad\w+|chang\w+|"
    r"affect\w+|compromis\w+|reduc\w+|hurt\w+|harm\w+)"
)
_UNCLEAR = r"not (?:necessarily|clear|obvious|known|certain|sure)|whether or not"
# Verbs of use and need.
_USE = (
    r"(?:(?:using|uses?|used|appl(?:y|ies|ied|ying)|employ(?:s|ed|ing)?|needs?|needed|needing|requir(?:e|es|ed|ing)|"
    r"rely(?:ing)? on|relies on|reli(?:ance|ed) on|resort(?:s|ed|ing)? to|depend(?:s|ed|ing)? on|access to|having|"
    r"consider(?:s|ed|ing)?|exploit(?:s|ed|ing)?|the (?:use|help|need|aid)(?: of| for)|need for|use of) )"
)
_NOT = r"not|n't|never|cannot|hardly|fail(?:s|ed|ing)? to|unable to|inab\w+ to|incapable of|neither|nor|no longer"
_HINDER = (
    r"hamper(?:s|ed|ing)?|hinder(?:s|ed|ing)?|imped(?:e|es|ed|ing)|undermin(?:e|es|ed|ing)|harm(?:s|ed|ing)?|"
    r"preclud(?:e|es|ed|ing)|obstruct(?:s|ed|ing)?|ignor(?:e|es|ed|ing)|neglect(?:s|ed|ing)?|overlook(?:s|ed|ing)?"
)
_WITHOUT = (
    r"no|without|lack(?:s|ed|ing)?(?: of)?|instead of|rather than|except for|excluding|unlike|independent(?:ly)? of|"
    r"free of|in the absence of|irrespective of|regardless of"
)
_MAY = (
    r"may|might|could (?:potentially|possibly|perhaps)|perhaps|probably|presumably|likely to|unlikely to|"
    r"appear(?:s|ed)? to|seem(?:s|ed)? to|unclear|hypothesi[sz]\w+ that|speculat\w+ that|conjectur\w+ that|"
    r"suspect(?:s|ed)? that|suggest(?:s|ed|ing)? that|in principle|in theory|expected to|supposed to|arguably"
)
# Hedges that introduce a whole statement.
_ASK = (
    r"(?:whether|unclear if|(?:hypothesi[sz]|speculat|conjectur|suspect|suggest)\w* that|perhaps|"
    r"probably|presumably)"
)
# Ends the scope of a cue of a clause.
_END = (
    r"[;:.!?]|but|however|although|though|whereas|while|because|since|therefore|thus|hence|yet|"
    r", (?:and|or|so|we|it|they|which|who|where|this|that|these|as|our|thereby|leading|resulting|causing|making)"
)
# Words of a noun phrase before its head: anything but these.
_PLAIN = (
    r"(?:(?!(?:of|in|on|at|for|to|by|with|from|as|is|are|was|were|be|been|and|or|that|which|who|via|than|"
    r"over|into|between|[,;:().]) )\S+ ){0,3}"
)
# Begins a clause of its own, whose cues do not concern the words before it.
_CLAUSE = re.compile(r" (?:when|if|where|that|which|who|whose|how|because|as) ")
# Between two entities of one phrase that a hedge introduces: "whether parsers for English".
_ATTRIBUTE = re.compile(r" (?:using|with|for|in|on|from|to|by|via) (?:\S+ )?")
# Between two entities of one phrase.
_SAME_PHRASE = re.compile(
    r" (?:(?:of|and|or|such|like|including|,|\(|e\.g\.|about|-lrb-|/|'s|’s) |"
    r"(?:\w+ly )?(?:learned|learnt|trained|based|built|derived|extracted|obtained|generated|collected) "
    r"(?!.* (?:can|could|may|is|are|was|were|will|do|does|has|have) ))"
)
# Relation types that hold whatever the sentence says about their ends.
_ALWAYS = re.compile("compar|contrast|conjunct|oppos|differ|evaluat", re.IGNORECASE)


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    """Compile a pattern on first use: most sentences have no cue, and all patterns together take 10 ms."""
    # Words are joined by single spaces, with one at each end.
    return re.compile(f"(?<= )(?:{pattern})")


_harmless, _unclear, _end = (f"(?:{words})(?= )" for words in (_HARMLESS, _UNCLEAR, _END))
_any = f"(?:{_NOT}|{_HINDER}|{_WITHOUT}|other than|avoid\\w*|{_MAY}|{_ASK})(?= )"
_clause = {NEGATED: f"(?:{_NOT}|{_HINDER})(?= )", HEDGED: f"(?:{_MAY})(?= )"}
_phrase = f"(?:(?:{_WITHOUT}) (?:the |any |a |an )?{_USE}?|(?:other than|avoid\\w*) {_USE}){_PLAIN}$"
_before = {
    NEGATED: f"(?:no {_PLAIN}|(?:{_NOT}|{_WITHOUT}|other than|avoid\\w*) (?:\\w+ly )?{_USE}{_PLAIN})$",
    HEDGED: f"(?:{_ASK} {_PLAIN}|(?:{_MAY}) (?:be |also )?{_USE}{_PLAIN})$",
}


def find_status(words: Sequence[str], first: tuple[int, int], second: tuple[int, int], label: str = "") -> str:
    """Return the status of a relation between two entities of a sentence.

    Args:
        words: The words of the sentence.
        first: Half-open word indices of the head.
        second: Half-open word indices of the tail.
        label: Relation type.

    Returns:
        "asserted", "negated" or "hedged".

    Example:
        >>> find_status("A CRF does not need features .".split(), (1, 2), (5, 6), "USED-FOR")
        'negated'
    """
    (start, end), (other_start, _) = sorted((first, second))
    before, between = _join(words[max(0, start - BEFORE) : start]), _join(words[end:other_start])
    if not (_compile(_any).search(before) or _compile(_any).search(between)) or _ALWAYS.search(label):
        return ASSERTED
    same_phrase = other_start <= end or _SAME_PHRASE.match(between)
    if _compile(_phrase).search(between):
        return NEGATED
    for status in (NEGATED, HEDGED):
        if any(_concerns_both(between, found) for found in _compile(_clause[status]).finditer(between)):
            return status
        is_attribute = status == HEDGED and _ATTRIBUTE.fullmatch(between)
        if not same_phrase and not is_attribute and _compile(_before[status]).search(before):
            return status
    return ASSERTED


def _concerns_both(between: str, cue: re.Match[str]) -> bool:
    """Return whether the clause of a cue reaches from one entity to the other."""
    # A clause that begins right after the first entity is about it: "a grammar, which may help".
    first_words = " ".join(between.split(" ", 3)[:3])
    is_ended = _compile(_end).search(between, cue.end()) is not None
    return not is_ended and _CLAUSE.search(between, len(first_words), cue.start()) is None


def _join(words: Sequence[str]) -> str:
    return _compile(_harmless).sub("_", _compile(_unclear).sub("unclear", f" {' '.join(words).lower()} "))
