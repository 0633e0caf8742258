"""Word pieces of words: each word is tokenized once, and its pieces are cached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from tokenizers import Tokenizer

from cascade_srn.text.forms import model_words

Pieces = tuple[int, ...]
"""The pieces of a word."""

# Longer words are not cached: they rarely recur and take much memory.
_MAX_CACHED_LENGTH = 100


@dataclass(frozen=True)
class SpecialPieces:
    """What is needed to know of a tokenizer besides its ``tokenizer.json``.

    Attributes:
        prefix, suffix: Special pieces before and after a sequence.
        fallback: Piece of a word that has none, because the tokenizer drops all its characters.
        mask: Piece of a masked word.
        pad: Piece of padding.
        lead: Text that a word needs before it: byte-level vocabularies recognise the start of a word by a space.
    """

    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    fallback: int
    mask: int
    pad: int
    lead: str

    @classmethod
    def of(cls, tokenizer: Any) -> Self:
        """Find the special pieces of a fast tokenizer of transformers."""
        prefix, suffix = _special_pieces(tokenizer)
        fallback = _fallback_piece(tokenizer)
        mask = int(fallback if tokenizer.mask_token_id is None else tokenizer.mask_token_id)
        lead = " " if "ByteLevel" in repr(tokenizer.backend_tokenizer.pre_tokenizer) else ""
        return cls(prefix, suffix, fallback, mask, int(tokenizer.pad_token_id or 0), lead)


class TokenizedWords:
    """Tokenizes words one by one and caches their pieces. Several threads may use it."""

    def __init__(self, tokenizer: Tokenizer, special: SpecialPieces, *, text_form: str, cache_size: int) -> None:
        self.backend = _prepare_for_words(tokenizer)
        self.text_form = text_form
        self.cache_size = cache_size
        self._fallback, self._lead = special.fallback, special.lead
        self._special = {i for i, token in self.backend.get_added_tokens_decoder().items() if token.special}
        # By the form of a word, and by the word itself, which saves making the form.
        self.by_form: dict[str, Pieces] = {}
        self._by_word: dict[str, Pieces] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the caches."""
        return {**self.__dict__, "by_form": {}, "_by_word": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Prepare the tokenizer again, because a copy of one has lost that."""
        self.__dict__.update(state)
        _prepare_for_words(self.backend)

    def _tokenize(self, words: Sequence[str]) -> dict[str, Pieces]:
        """Return a mapping with the pieces of at least these words. New words are tokenized in one call."""
        cache = self.by_form
        new = [word for word in words if word not in cache]
        if not new:
            return cache
        new = list(dict.fromkeys(new))
        if len(cache) + len(new) > self.cache_size:
            # Start a new mapping instead of clearing this one, because another thread may be reading it.
            cache, new = {}, list(dict.fromkeys(words))
        encoded = self.backend.encode_batch([self._lead + word for word in new], add_special_tokens=False)
        # A word of characters that the tokenizer drops still is an item of the sentence.
        found = {w: self._without_special(e.ids) or (self._fallback,) for w, e in zip(new, encoded, strict=True)}
        cache.update((word, pieces) for word, pieces in found.items() if len(word) <= _MAX_CACHED_LENGTH)
        self.by_form = cache
        if any(len(word) > _MAX_CACHED_LENGTH for word in new):
            return {word: found[word] if word in found else cache[word] for word in words}
        return cache

    def _without_special(self, ids: Sequence[int]) -> Pieces:
        """Replace special pieces, which a Unigram vocabulary finds in any text that contains their names."""
        return tuple(self._fallback if i in self._special else i for i in ids)

    def tokenize_ahead(self, words: Sequence[str]) -> None:
        """Tokenize the words of a sentence into the cache."""
        self._tokenize(model_words(words, self.text_form))

    def of_words(self, words: Sequence[str]) -> list[Pieces]:
        """Return the pieces of each word of a sentence."""
        known = self._by_word
        try:
            return [known[word] for word in words]
        except KeyError:
            pass
        forms = model_words(words, self.text_form)
        pieces_of = self._tokenize(forms)
        pieces = [pieces_of[form] for form in forms]
        # In the form "escaped", the pieces of a quote depend on the words before it.
        if self.text_form != "escaped":
            if len(known) + len(words) > self.cache_size:
                self._by_word = known = {}
            known.update((w, p) for w, p in zip(words, pieces, strict=True) if len(w) <= _MAX_CACHED_LENGTH)
        return pieces

    def of_sentences(self, sentences: Sequence[Sequence[str]]) -> list[Pieces]:
        """Return the pieces of each word of all sentences. New words of all of them are tokenized in one call."""
        if self.text_form == "escaped":
            return [pieces for words in sentences for pieces in self.of_words(words)]
        known = self._by_word
        new = list(set().union(*sentences).difference(known))
        found = dict(zip(new, self.of_words(new), strict=True))
        try:
            return [known[word] for words in sentences for word in words]
        except KeyError:
            # Long words are not cached, and a full cache has been replaced.
            return [known[word] if word in known else found[word] for words in sentences for word in words]


def _prepare_for_words(tokenizer: Tokenizer) -> Tokenizer:
    """Make a tokenizer read single words: it does not truncate, and reads the name of a special token as text."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    return tokenizer


def _fallback_piece(tokenizer: Any) -> int:
    for name in ("unk_token_id", "mask_token_id", "pad_token_id"):
        if (found := getattr(tokenizer, name, None)) is not None:
            return int(found)
    return 0


def _special_pieces(tokenizer: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the special pieces that the tokenizer puts before and after a sequence."""
    # Any text with at least one piece serves. Which texts have one depends on the scripts in the vocabulary.
    plain = set(tokenizer.get_vocab()).difference(tokenizer.all_special_tokens)
    texts = ("a", *(token.strip("#▁Ġ ") for token in sorted(plain)))
    for text in texts:
        bare, full = tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer(text)["input_ids"]
        for at in range(len(full) - len(bare) + 1):
            if bare and full[at : at + len(bare)] == bare:
                return tuple(full[:at]), tuple(full[at + len(bare) :])
    return (), ()
