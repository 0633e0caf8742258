import pytest

from cascade_srn.apps.graph.forest import Forest, Merge
from cascade_srn.apps.graph.settings import read_aliases, read_merges, read_splits
from cascade_srn.errors import DataError


def pairs(aliases):
    return [(alias.canonical, alias.alias, alias.label) for alias in aliases]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", 'canonical,alias,label\nNER,entity tagging,Task\n"CRF","a, b",\n\n'),
        ("a.tsv", "\ufeffcanonical\talias\tlabel\nNER\tentity tagging\tTask\nCRF\ta, b\t\n"),
        ("a.yaml", "- {canonical: NER, alias: entity tagging, label: Task}\n- {canonical: CRF, alias: ['a, b']}\n"),
    ],
)
def test_aliases(tmp_path, name, content):
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert pairs(read_aliases(tmp_path / name)) == [("NER", "entity tagging", "Task"), ("CRF", "a, b", "")]


def test_a_mapping_of_aliases(tmp_path):
    (tmp_path / "a.yml").write_text("GPT-4: [gpt4, 4]\nNER: entity tagging\n")
    assert pairs(read_aliases(tmp_path / "a.yml")) == [
        ("GPT-4", "gpt4", ""),
        ("GPT-4", "4", ""),
        ("NER", "entity tagging", ""),
    ]


def test_merges_and_splits(tmp_path):
    (tmp_path / "m.csv").write_text("text,into\na,b\n")
    (tmp_path / "s.csv").write_text("text,from\na,b\nc,\n")
    assert pairs(read_merges(tmp_path / "m.csv")) == [("b", "a", "")]
    assert [(split.text, split.other) for split in read_splits(tmp_path / "s.csv")] == [("a", "b"), ("c", "")]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "canonical,alais\na,b\n"),
        ("a.csv", "canonical\na\n"),
        ("a.csv", "canonical,alias\na,\n"),
        ("a.csv", "canonical,alias\na,b,c,d\n"),
        ("a.csv", 'canonical,alias\n"a,b\n'),
        ("a.csv", "canonical,alias\na,x\nb,x\n"),
        ("a.yaml", "- a\n"),
        ("a.yaml", "a: {b: c}\n"),
        ("a.yaml", "[a\n"),
        ("a.yaml", "text\n"),
        ("a.yaml", "- {canonical: a, alias: [null]}\n"),
    ],
)
def test_malformed_files_are_refused(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError) as caught:
        read_aliases(tmp_path / name)
    assert caught.value.option == "aliases"
    assert name in caught.value.problem


def test_a_missing_file_and_other_encodings(tmp_path):
    with pytest.raises(DataError):
        read_splits(tmp_path / "missing.csv")
    (tmp_path / "latin.csv").write_bytes("text,from\né,b\n".encode("latin-1"))
    with pytest.raises(DataError):
        read_splits(tmp_path / "latin.csv")


def make_forest(*names):
    forest = Forest()
    for name in names:
        forest.keys[forest.add(name, "", name)].n = 1
    return forest


def test_keys_that_are_kept_apart_never_meet():
    forest = make_forest("a", "b", "c", "d")
    forest.keep_apart(0, 3)
    assert forest.merge(Merge(0, 1, "fuzzy", ""))
    assert forest.merge(Merge(2, 3, "fuzzy", ""))
    assert not forest.merge(Merge(1, 2, "fuzzy", ""))
    assert forest.root(0) == forest.root(1) != forest.root(2) == forest.root(3)


def test_an_isolated_key_stays_alone():
    forest = make_forest("a", "b")
    forest.isolate(1)
    assert not forest.merge(Merge(0, 1, "fuzzy", ""))


def test_a_pinned_key_stays_the_root():
    forest = make_forest("a", "b", "c")
    forest.pin(0)
    assert forest.merge(Merge(0, 1, "fuzzy", ""))
    assert forest.root(1) == 0
    forest.pin(2)
    assert not forest.merge(Merge(2, 0, "fuzzy", ""))
    assert forest.merge(Merge(2, 0, "manual", ""), forced=True)


def test_the_main_key_is_spelled_out_unless_that_is_rare():
    forest = make_forest("NER", "named entity recognition", "BERT", "bidirectional encoder")
    for at, n in enumerate((60, 30, 100, 2)):
        forest.keys[at].n = n
    forest.merge(Merge(0, 1, "acronym", ""))
    forest.merge(Merge(2, 3, "acronym", ""))
    assert {forest.keys[at].name for at in forest.main_keys().values()} == {"named entity recognition", "BERT"}
