import json
import random

import pytest
from tests.apps.graph.documents import DOCUMENTS, document, write_lines

from cascade_srn import Extractor
from cascade_srn.apps.graph import GraphSettings, build, open_graph
from cascade_srn.apps.graph.tables import STEPS, TABLES
from cascade_srn.errors import ConfigError, DataError

pytest.importorskip("duckdb")
pytest.importorskip("rapidfuzz")
parquet = pytest.importorskip("pyarrow.parquet")

DATED = GraphSettings(date_field="id", date_pattern=r"^\d{4}")


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    """Build a graph from documents and open it, unless it is open already."""
    opened = {}

    def make(documents=DOCUMENTS, **settings):
        key = repr((documents, sorted(settings.items())))
        if key not in opened:
            folder = tmp_path_factory.mktemp("made")
            build(write_lines(documents, folder / "extracted.jsonl"), folder / "graph", GraphSettings(**settings))
            opened[key] = open_graph(folder / "graph")
        return opened[key]

    yield make
    for graph in opened.values():
        graph.close()


@pytest.fixture(scope="module")
def dated(tmp_path_factory):
    """The folder of a graph with dates."""
    folder = tmp_path_factory.mktemp("dated")
    build(write_lines(DOCUMENTS, folder / "a.jsonl"), folder / "graph", DATED)
    return folder / "graph"


def names(graph):
    return {row["name"] for row in graph.query("SELECT name FROM nodes")}


def edges(graph):
    rows = graph.query(
        "SELECT h.name AS head, e.label, t.name AS tail, n, flag FROM edges e JOIN nodes h ON h.node = e.head "
        "JOIN nodes t ON t.node = e.tail"
    )
    return {(row["head"], row["label"], row["tail"]): (row["n"], row["flag"]) for row in rows}


def test_mentions_are_merged_across_documents(make):
    graph = make()
    (ner,) = graph.search("named entity")
    assert (ner["name"], ner["label"], ner["n_mentions"], ner["n_documents"]) == (
        "named entity recognition",
        "Task",
        3,
        2,
    )
    assert names(graph) == {
        "CRF",
        "named entity recognition",
        "conditional random fields",
        "news corpora",
        "LSTM",
        "Attention",
        "Encoder",
        "kernel",
        "function",
        "mapping",
    }


def test_edges_have_counts_and_flags(make):
    assert edges(make()) == {
        ("CRF", "USED-FOR", "named entity recognition"): (2, ""),
        ("news corpora", "EVALUATE-FOR", "named entity recognition"): (1, ""),
        ("CRF", "COMPARE", "LSTM"): (2, ""),
        ("Attention", "PART-OF", "Encoder"): (1, "contradiction"),
        ("Encoder", "PART-OF", "Attention"): (1, "contradiction"),
        ("kernel", "HYPONYM-OF", "function"): (1, "cycle"),
        ("function", "HYPONYM-OF", "mapping"): (1, "cycle"),
        ("mapping", "HYPONYM-OF", "kernel"): (1, "cycle"),
    }


def test_a_symmetric_relation_in_both_directions_is_one_piece_of_evidence(make):
    graph = make()
    (edge,) = graph.query("SELECT * FROM edges WHERE label = 'COMPARE'")
    assert edge["symmetric"]
    scores = [row["score"] for row in graph.evidence(edge["edge"])]
    assert scores == pytest.approx([0.95, 0.5])
    assert (edge["n"], edge["n_documents"], edge["best_score"]) == (2, 2, pytest.approx(0.95))
    assert edge["mean_score"] == pytest.approx(0.725)
    directed = make(symmetric=())
    assert len(directed.query("SELECT * FROM edges WHERE label = 'COMPARE'")) == 2


def test_dates_are_those_of_the_evidence(dated):
    with open_graph(dated) as graph:
        (edge,) = graph.query("SELECT * FROM edges WHERE label = 'USED-FOR'")
        assert (edge["first_date"], edge["last_date"]) == ("2019", "2020")
        assert graph.search("kernel")[0]["first_date"] is None
        assert {row["date"] for row in graph.query("SELECT date FROM documents")} == {"2019", "2020", "2021", None}


def check_consistency(graph):
    """Check what holds for every graph."""
    counts = graph.query(
        "SELECT e.edge, n, count(v.edge) AS found FROM edges e LEFT JOIN evidence v USING (edge) GROUP BY ALL"
    )
    assert all(row["n"] == row["found"] > 0 for row in counts)
    for row in graph.query("SELECT v.*, d.text FROM evidence v JOIN documents d USING (document, document_id)"):
        assert row["text"][row["sentence_start"] : row["sentence_end"]] == row["sentence_text"]
        for role in ("head", "tail"):
            assert row["text"][row[f"{role}_start"] : row[f"{role}_end"]] == row[f"{role}_text"]
    for row in graph.query(
        "SELECT m.*, d.text AS whole FROM mentions m JOIN documents d USING (document, document_id)"
    ):
        assert row["whole"][row["start"] : row["end"]] == row["text"]
        assert row["step"] in STEPS
    assert not graph.query("SELECT * FROM edges WHERE head = tail")
    assert not graph.query("SELECT node FROM mentions EXCEPT SELECT node FROM nodes")
    assert not graph.query("SELECT node FROM merges EXCEPT SELECT node FROM nodes")
    degrees = graph.query(
        "SELECT node, degree, (SELECT count(*) FROM edges WHERE head = node OR tail = node) AS found FROM nodes"
    )
    assert all(row["degree"] == row["found"] for row in degrees)
    totals = graph.query(
        "SELECT n.node, n_mentions, count(*) AS found FROM nodes n JOIN mentions USING (node) GROUP BY ALL"
    )
    assert all(row["n_mentions"] == row["found"] for row in totals)
    assert len(totals) == graph.record["counts"]["nodes"]


def test_every_edge_has_evidence_and_offsets_point_to_texts(make):
    check_consistency(make())
    check_consistency(make(generic=True, min_score=0.5, types=False))


@pytest.mark.parametrize("seed", range(2))
def test_the_order_of_documents_does_not_matter(dated, tmp_path, seed):
    shuffled = random.Random(seed).sample(DOCUMENTS, len(DOCUMENTS))
    second = [write_lines(shuffled[:2], tmp_path / "z.jsonl"), write_lines(shuffled[2:], tmp_path / "b.jsonl")]
    build(second[::-1], tmp_path / "second", DATED)
    for name in TABLES:
        one, other = (
            parquet.read_table(folder / f"{name}.parquet").to_pylist() for folder in (dated, tmp_path / "second")
        )
        # Only the place in the files differs.
        for row in (*one, *other):
            row.pop("shard", None), row.pop("input", None), row.pop("row", None)
        assert one == other


def test_the_same_input_gives_the_same_bytes(tmp_path):
    lines = write_lines(DOCUMENTS, tmp_path / "a.jsonl")
    for name in ("first", "second"):
        build(lines, tmp_path / name)
    for table in TABLES:
        assert (tmp_path / "first" / f"{table}.parquet").read_bytes() == (
            tmp_path / "second" / f"{table}.parquet"
        ).read_bytes()


@pytest.mark.slow
def test_steps_can_be_switched_off(make):
    assert "CRFs" in names(make(text=False))
    assert {"NER", "named entity recognition"} <= names(make(acronyms=False))
    apart = make(types=False)
    assert {row["label"] for row in apart.search("kernel")} == {"Method", "Task"}
    whole = make()
    (kernel,) = whole.search("kernel")
    assert json.loads(whole.node(kernel["node"])["votes"]) == {"Method": pytest.approx(1.8), "Task": pytest.approx(0.9)}
    assert "type" in {row["step"] for row in whole.explain(kernel["node"])["merges"]}


def test_generic_mentions_are_left_out_unless_wanted(make):
    assert not {"It", "this method"} & names(make())
    kept = names(make(generic=True))
    assert "It" in kept
    assert "method" in kept
    assert "CRF" not in names(make(generic_labels=("Method",)))


def test_weak_relations_and_rare_edges_are_left_out(make):
    assert ("Encoder", "PART-OF", "Attention") not in edges(make(min_score=0.5))
    assert set(edges(make(min_count=2))) == {
        ("CRF", "USED-FOR", "named entity recognition"),
        ("CRF", "COMPARE", "LSTM"),
    }


def test_relations_that_a_sentence_denies_or_considers_are_left_out_unless_wanted(make, tmp_path):
    documents = [
        document("a", ("[CRF/M] does not need [grammars/D] .", [(1, "USED-FOR", 0, 0.9)])),
        document("b", ("[CRF/M] may improve [NER/T] .", [(0, "USED-FOR", 1, 0.9)])),
        document("c", ("[CRF/M] improves [tagging/T] .", [(0, "USED-FOR", 1, 0.9)])),
    ]
    asserted, hedged = ("CRF", "USED-FOR", "tagging"), ("CRF", "USED-FOR", "NER")
    assert set(edges(make(documents))) == {asserted}
    assert set(edges(make(documents, keep=("hedged",)))) == {asserted, hedged}
    everything = make(documents, keep=("negated", "hedged"))
    assert len(edges(everything)) == 3
    rows = everything.query("SELECT status FROM evidence ORDER BY document")
    assert [row["status"] for row in rows] == ["negated", "hedged", "asserted"]
    report = build(write_lines(documents, tmp_path / "a.jsonl"), tmp_path / "graph")
    assert report.dropped == {"negated relations": 1, "hedged relations": 1}
    with pytest.raises(ConfigError, match="keep"):
        GraphSettings(keep=("denied",))


def test_relations_below_a_promised_precision_are_left_out(make, tmp_path):
    lowest = Extractor.from_pretrained(precision={"relations": 0.5}).min_scores.relations["PART-OF"]
    promised = edges(make(precision="0.5"))
    assert promised == edges(make(min_score=lowest)) != edges(make())
    for precision, message in (("0.99", "highest level"), ("Task=0.7", "relations only"), ("high", "'high'")):
        with pytest.raises(ConfigError, match=message):
            make(precision=precision)
    path = write_lines(DOCUMENTS, tmp_path / "others.jsonl")
    path.write_text(path.read_text().replace('{"id"', '{"model": "%s", "id"' % ("0" * 64)))
    with pytest.raises(DataError, match="from the model 000000000000"):
        build(path, tmp_path / "graph", GraphSettings(precision="0.5"))


def test_every_merge_has_a_reason(make):
    graph = make()
    found = graph.explain(graph.search("named entity")[0]["node"])
    assert [(row["text"], row["step"]) for row in found["merges"]] == [("NER", "acronym")]
    assert "2019.a" in found["merges"][0]["reason"]
    crf = graph.explain(graph.search("CRF")[0]["node"])
    assert [(row["text"], row["into_text"], row["reason"]) for row in crf["merges"]] == [("CRFs", "CRF", "plural")]


def test_ambiguous_acronyms_are_kept_per_document(make):
    documents = [
        document("a", ("[machine translation/T] ( [MT/T] ) is old . [MT/T] works .", [])),
        document("b", ("[multitask training/M] ( [MT/M] ) is new .", [])),
        document("c", ("[MT/T] is here .", [])),
    ]
    graph = make(documents)
    counts = {row["name"]: row["n_mentions"] for row in graph.query("SELECT * FROM nodes")}
    assert counts == {"machine translation": 3, "multitask training": 2, "MT": 1}
    assert len({row["node"] for row in graph.query("SELECT node FROM nodes")}) == 3


def test_aliases_merges_and_splits(make, tmp_path):
    (tmp_path / "aliases.csv").write_text("canonical,alias,label\nConditional Random Field,CRF,Model\nx,y,\n")
    (tmp_path / "merges.yaml").write_text("- {text: kernel, into: mapping}\n")
    (tmp_path / "splits.csv").write_text("text,from\nNER,named entity recognition\nCRFs,CRF\n")
    graph = make(
        aliases=str(tmp_path / "aliases.csv"),
        merges=str(tmp_path / "merges.yaml"),
        splits=str(tmp_path / "splits.csv"),
    )
    found = names(graph)
    assert {"NER", "named entity recognition", "CRFs"} <= found
    assert "kernel" not in found
    crf = graph.node("conditional-random-fields-model")
    assert (crf["label"], crf["n_mentions"]) == ("Model", 4)
    steps = {row["step"] for row in graph.query("SELECT step FROM merges")}
    assert {"alias", "manual"} <= steps
    check_consistency(graph)


def test_unused_entries_are_noted_and_contradictions_refused(tmp_path):
    lines = write_lines(DOCUMENTS, tmp_path / "a.jsonl")
    (tmp_path / "aliases.csv").write_text("canonical,alias\nx,unheard of\n")
    report = build(
        lines, tmp_path / "graph", GraphSettings(aliases=str(tmp_path / "aliases.csv"), acyclic=("PART-FO",))
    )
    assert len(report.notes) == 2
    assert "unheard of" in report.notes[0]
    assert "PART-OF" in report.notes[1]
    (tmp_path / "splits.csv").write_text("text,from\nCRF,LSTM\n")
    (tmp_path / "merges.csv").write_text("text,into\nCRF,LSTM\n")
    with pytest.raises(ConfigError):
        build(
            lines,
            tmp_path / "other",
            GraphSettings(splits=str(tmp_path / "splits.csv"), merges=str(tmp_path / "merges.csv")),
        )
    assert not (tmp_path / "other").exists()


def test_counts_are_reported(tmp_path):
    report = build(write_lines(DOCUMENTS, tmp_path / "a.jsonl"), tmp_path / "graph")
    record = json.loads((tmp_path / "graph" / "graph.json").read_text())
    assert record["counts"] == report.counts
    assert report.counts["documents"] == 4
    assert report.dropped == {"generic mentions": 2, "relations of generic mentions": 2, "repeated relations": 1}
    assert report.flags == {"contradiction": 2, "cycle": 3}
    assert str(tmp_path) not in (tmp_path / "graph" / "graph.json").read_text()


def test_documents_without_entities_give_an_empty_graph(make):
    graph = make([document("a", ("Nothing here .", []))])
    assert graph.record["counts"] == dict.fromkeys(TABLES, 0) | {"documents": 1}
    with pytest.raises(DataError):
        graph.node("x")


def test_strange_names_get_ids(make):
    texts = ["C", "C++", "C#", "<b>x</b>", "中文", "é", "a" * 300, "100 %", "🙂 model"]
    graph = make([document(f"{n}", (f"[{text}/M] and [C/M] and [c++/M] .", [])) for n, text in enumerate(texts)])
    rows = graph.query("SELECT * FROM nodes")
    assert {row["name"] for row in rows} >= {"C", "C#", "<b>x</b>", "中文", "é", "100 %"}
    assert len({row["node"] for row in rows}) == len(rows)
    assert all(row["node"] for row in rows)
    check_consistency(graph)


def test_existing_folders_are_kept(tmp_path):
    lines = write_lines(DOCUMENTS, tmp_path / "a.jsonl")
    build(lines, tmp_path / "graph")
    with pytest.raises(DataError):
        build(lines, tmp_path / "graph")
    build(lines, tmp_path / "graph", overwrite=True)
    with pytest.raises(DataError):
        build(lines, tmp_path, overwrite=True)
