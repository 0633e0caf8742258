import pickle

import pytest

from cascade_srn import errors
from cascade_srn.errors import CascadeError, ConfigError, did_you_mean, short_repr, suggest


@pytest.mark.parametrize(
    ("received", "known", "expected"),
    [
        ("swif", ["swift", "early"], "Did you mean 'swift'?"),
        ("Compare", ["COMPARE", "USED-FOR"], "Did you mean 'COMPARE'?"),
        ("xyz", ["swift", "early"], "Known: early, swift"),
        ("xyz", [], "Known: none"),
    ],
)
def test_did_you_mean(received, known, expected):
    assert did_you_mean(received, known) == expected


def test_one_base_class_catches_every_error():
    kinds = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    assert len(kinds) == 8
    assert all(issubclass(kind, CascadeError) for kind in kinds)
    assert issubclass(CascadeError, ValueError)


def test_suggestion_is_empty_if_nothing_is_close():
    assert suggest("Pfnn", ["cascade", "pfn"]) == "Did you mean 'pfn'?"
    assert suggest("xml", ["table", "jsonl"]) == ""


def test_long_values_are_shortened():
    assert short_repr([1, "a"]) == "[1, 'a']"
    assert len(short_repr("a" * 1000)) == 60


def test_problem_and_hint_are_fields_and_sentences():
    error = ConfigError("epochs is 0", "Set a number of at least 1", option="epochs")
    assert (error.problem, error.hint, error.option) == ("epochs is 0", "Set a number of at least 1", "epochs")
    assert str(error) == "epochs is 0. Set a number of at least 1 (epochs)."
    assert error.message("--epochs") == "epochs is 0. Set a number of at least 1 (--epochs)."
    assert error.message() == "epochs is 0. Set a number of at least 1."
    assert str(ConfigError("a problem alone")) == "a problem alone"


def test_fields_survive_pickling():
    error = pickle.loads(pickle.dumps(ConfigError("problem", "Hint", option="x")))
    assert (error.problem, error.hint, error.option) == ("problem", "Hint", "x")
