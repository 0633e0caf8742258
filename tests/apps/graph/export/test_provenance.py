"""All exports of a graph have the documents, facts and mentions of its tables, and these are those of the input.

The input has many small files, which share shards, and ids that repeat.
"""

import csv
import io
import json
import random
from collections import Counter, defaultdict

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from tests.apps.corpus.jobs import save_model
from tests.apps.corpus.jobs import settings as job_settings
from tests.apps.graph.documents import document
from tests.apps.graph.export.test_neo4j import column, read_sources

from cascade_srn.apps.corpus import verify
from cascade_srn.apps.corpus.inputs import RowReader
from cascade_srn.apps.corpus.job import run
from cascade_srn.apps.corpus.writing import ShardTables
from cascade_srn.apps.graph import GraphSettings, build, open_graph
from cascade_srn.apps.graph.export import FORMATS, export_graph
from cascade_srn.apps.graph.export.rdf import PREFIXES
from cascade_srn.apps.graph.filters import Filters

duckdb = pytest.importorskip("duckdb")
networkx = pytest.importorskip("networkx")
oxigraph = pytest.importorskip("pyoxigraph")

DOCUMENTS = [
    document("", ("A [CRF/M] helps [parsing/T] .", [(0, "USED-FOR", 1, 0.9)])),
    document(
        "", ("The [kernel/M] helps [tagging/T] on [news/D] .", [(0, "USED-FOR", 1, 0.8), (2, "USED-FOR", 1, 0.7)])
    ),
    document(
        "",
        ("𝔘nicode 👩‍🔬 first , then a [CRF/M] for [tagging/T] .", [(0, "USED-FOR", 1, 0.9)]),
        ("The [CRF/M] is compared with a [kernel/M] .", [(0, "COMPARE", 1, 0.6)]),
    ),
    document("", ("Nothing is said .", [])),
]
KNOWN = {item.text: item for item in DOCUMENTS}
TEXTS = list(KNOWN)
DATE = "2020"

texts = st.sampled_from(TEXTS)
records = st.lists(st.tuples(texts, st.sampled_from([None, "1", "2", "001.csv:1", "é /#"])), min_size=1, max_size=3)
files = st.one_of(
    st.tuples(st.just("txt"), st.lists(st.tuples(texts, st.none()), min_size=1, max_size=1)),
    st.tuples(st.sampled_from(["csv", "jsonl"]), records),
)
corpora = st.lists(files, min_size=1, max_size=8).filter(
    lambda found: any(KNOWN[t].entities for _, f in found for t, _ in f)
)


class KnownEngine:
    """Writes the shards of a job with known annotations instead of those of a model."""

    def run(self, job, shards, control):
        with RowReader(job.files, job.settings.inputs) as reader:
            for shard in shards:
                tables = ShardTables(job, shard.id)
                for row in reader.read(shard):
                    tables.add_document(row, KNOWN[row.text].sentences)
                yield tables.write(0.0, 1)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("model") / "model")


def write_files(folder, corpus):
    """Write the files of a corpus, and return the text of each row by the name of its file and the row."""
    folder.mkdir()
    expected = {}
    for number, (kind, rows) in enumerate(corpus):
        name = f"{number:03}.{kind}"
        expected |= {(name, row): text for row, (text, _) in enumerate(rows)}
        content = io.StringIO(newline="")
        if kind == "csv":
            writer = csv.writer(content)
            writer.writerows([("id", "text", "year"), *((given or "", text, DATE) for text, given in rows)])
        elif kind == "jsonl":
            for text, given in rows:
                content.write(json.dumps({"text": text, "year": DATE} | ({"id": given} if given else {})) + "\n")
        else:
            content.write(rows[0][0])
        (folder / name).write_bytes(content.getvalue().encode())
    return expected


# An example takes a second, so that there are few, and they are not made smaller.
@pytest.mark.slow
@settings(max_examples=settings.default.max_examples // 6, phases=(Phase.explicit, Phase.generate))
@example([("csv", [(TEXTS[0], None), (TEXTS[3], None)]), ("csv", [(TEXTS[3], None), (TEXTS[1], None)])], 1000, True)
@example([("txt", [(text, None)]) for text in TEXTS * 5], 1000, False)
@given(corpora, st.integers(1, 20), st.booleans())
def test_exports_and_explorer_have_the_documents_facts_and_mentions_of_the_input(
    tmp_path_factory, model, corpus, shard_documents, store_text
):
    check_corpus(tmp_path_factory.mktemp("case"), model, corpus, shard_documents, store_text)


def mixed_corpus(n_documents):
    """Return files of all kinds that have this number of documents, with ids that repeat."""
    rng, corpus = random.Random(0), []
    while n_documents:
        kind = rng.choice(["txt", "csv", "jsonl"])
        rows = 1 if kind == "txt" else rng.randint(1, min(9, n_documents))
        ids = (None, "1", "2", "é /#") if kind != "txt" else (None,)
        corpus.append((kind, [(rng.choice(TEXTS), rng.choice(ids)) for _ in range(rows)]))
        n_documents -= rows
    return corpus


@pytest.mark.slow
@pytest.mark.parametrize("corpus", [[("txt", [(text, None)]) for text in TEXTS * 375], mixed_corpus(691)])
def test_exports_of_many_files_are_right_and_the_same_three_times(tmp_path, model, corpus):
    check_corpus(tmp_path, model, corpus, 1000, True)
    found = []
    for turn in range(3):
        folder = tmp_path / f"turn-{turn}"
        build(tmp_path / "job", folder / "graph", overwrite=True)
        for name in FORMATS:
            export_graph(folder / "graph", folder / name, name)
        files = [path for path in folder.rglob("*") if path.is_file()]
        files = [path for path in files if path.suffix != ".duckdb" and path.parent.name != "state"]
        found.append({str(path.relative_to(folder)): path.read_bytes() for path in files})
    assert len(found[0]) > len(FORMATS)
    assert found[0] == found[1] == found[2]


def check_corpus(folder, model, corpus, shard_documents, store_text):
    expected = write_files(folder / "in", corpus)
    dated = any(kind != "txt" for kind, _ in corpus)
    keep = {"keep": ("year",)} if dated else {}
    chosen = job_settings(shard_documents=shard_documents, store_text=store_text, inputs=keep)
    run(folder / "in", folder / "job", model=model, engine=KnownEngine(), settings=chosen)
    assert verify(folder / "job").is_correct
    build(folder / "job", folder / "graph", GraphSettings(date_field="year" if dated else None))
    with open_graph(folder / "graph") as graph:
        tables = Tables(graph)
        assert tables.places() == set(expected)
        assert tables.facts == expected_facts(expected, store_text)
        assert tables.mentions == expected_mentions(expected)
        check_questions(folder / "graph", tables)
        for name in FORMATS:
            report = export_graph(graph, folder / name, name)
            check = CHECKS[name]
            check(folder / name, tables, report)
        triples = [read_triples(folder / name, name) for name in RDF]
        assert set(triples[0]) == set(triples[1]) == set(triples[2])


class Tables:
    """Documents, facts and mentions of a graph by their places."""

    def __init__(self, graph):
        self.graph = graph
        self.documents = {row["document"]: row for row in graph.query("SELECT * FROM documents")}
        assert sorted(self.documents) == list(range(len(self.documents)))
        self.edges = {row["edge"]: row for row in graph.query("SELECT * FROM edges")}
        self.evidence = graph.query("SELECT * FROM evidence")
        self.facts = Counter(
            (*self.place(row["document"]), self.edges[row["edge"]]["label"], *offsets(row), row["sentence_text"])
            for row in self.evidence
        )
        rows = graph.query("SELECT * FROM mentions")
        self.mentions = Counter((*self.place(row["document"]), row["start"], row["end"], row["text"]) for row in rows)
        for row in (*self.evidence, *rows):
            assert row["document_id"] == self.documents[row["document"]]["document_id"]
        self.nodes = {row["node"]: row for row in graph.query("SELECT * FROM nodes")}
        by_edge, by_node = defaultdict(list), defaultdict(list)
        for row in self.evidence:
            by_edge[row["edge"]].append(row["document"])
        for row in rows:
            by_node[row["node"]].append(row["document"])
        self.by_edge, self.by_node = by_edge, by_node
        for edge, found in by_edge.items():
            assert (self.edges[edge]["n"], self.edges[edge]["n_documents"]) == (len(found), len(set(found)))

    def place(self, document):
        return self.documents[document]["input"], self.documents[document]["row"]

    def places(self):
        return {self.place(document) for document in self.documents}

    def described(self):
        """Return number, id, shard, file and row of the documents that have a mention, which exports contain."""
        used = {document for found in self.by_node.values() for document in found}
        names = ("document_id", "shard", "input", "row")
        return Counter(tuple(self.documents[document][name] for name in names) for document in used)


def offsets(row):
    return row["head_start"], row["head_end"], row["tail_start"], row["tail_end"]


def expected_facts(expected, store_text):
    found = Counter()
    for place, text in expected.items():
        for sentence in KNOWN[text].sentences:
            start, end = sentence.offsets[0][0], sentence.offsets[-1][1]
            for triple in sentence.triples:
                ends = [
                    offset
                    for span in (triple.head, triple.tail)
                    for offset in (sentence.offsets[span.start][0], sentence.offsets[span.end - 1][1])
                ]
                found[(*place, triple.label, *ends, text[start:end] if store_text else None)] += 1
    return found


def expected_mentions(expected):
    return Counter(
        (*place, entity.start, entity.end, text[entity.start : entity.end])
        for place, text in expected.items()
        for entity in KNOWN[text].entities
    )


def check_questions(folder, tables):
    graph = open_graph(folder)
    try:
        found = Counter()
        for edge, row in tables.edges.items():
            answer = graph.evidence(edge, limit=1000)
            assert answer[0]["total"] == len(answer) == row["n"]
            for each in answer:
                place = each["input"], each["row"]
                assert place == tables.place(each["document"])
                found[(*place, row["label"], *offsets(each), each["sentence_text"])] += 1
        assert found == tables.facts
        for node, own in tables.by_node.items():
            ranked = graph.ranking(node=node, limit=1000)["rows"]
            beside = {other: len(set(own) & set(rows)) for other, rows in tables.by_node.items() if other != node}
            counts = {row["node"]: row["n_documents"] for row in ranked}
            assert counts == {other: count for other, count in beside.items() if count}
        dated = {number for number, row in tables.documents.items() if row["date"]}
        shown = graph.neighbourhood(list(tables.nodes), Filters(first_year=int(DATE)), limit=200)["edges"]
        rows = {edge: [number for number in found if number in dated] for edge, found in tables.by_edge.items()}
        assert {row["edge"]: (row["n"], row["n_documents"]) for row in shown} == {
            edge: (len(found), len(set(found))) for edge, found in rows.items() if found
        }
    finally:
        graph.close()


def check_networkx(path, tables, report):
    read = networkx.read_graphml if path.name == "graphml" else networkx.read_gexf
    graph = read(path, force_multigraph=True) if path.name == "graphml" else read(path)
    assert {node: row["n_documents"] for node, row in graph.nodes(data=True)} == {
        node: len(set(tables.by_node[node])) for node in tables.nodes
    }
    assert Counter((head, tail, row["n_documents"]) for head, tail, row in graph.edges(data=True)) == Counter(
        (row["head"], row["tail"], len(set(tables.by_edge[edge]))) for edge, row in tables.edges.items()
    )


def check_csv(path, tables, report):
    for name in ("nodes", "edges", "mentions", "evidence", "documents"):
        with (path / f"{name}.csv").open(encoding="utf-8", newline="") as handle:
            rows = [tuple(row) for row in csv.reader(handle)]
        assert len(set(rows)) == len(rows)
    documents = read_csv(path / "documents.csv")
    place = {row["document"]: (row["input"], int(row["row"])) for row in documents}
    assert Counter((row["document_id"], row["shard"], *place[row["document"]]) for row in documents) == (
        tables.described()
    )
    labels = {row["edge"]: row["label"] for row in read_csv(path / "edges.csv")}
    numbers = ("head_start", "head_end", "tail_start", "tail_end")
    assert tables.facts == Counter(
        (*place[row["document"]], labels[row["edge"]], *(int(row[n]) for n in numbers), row["sentence_text"] or None)
        for row in read_csv(path / "evidence.csv")
    )
    assert tables.mentions == Counter(
        (*place[row["document"]], int(row["start"]), int(row["end"]), row["text"])
        for row in read_csv(path / "mentions.csv")
    )


def read_csv(path):
    with path.open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


def check_neo4j(path, tables, report):
    _, documents, facts, _, mentions, stated, _ = (source[1:] for source in read_sources(path, report.next_step))
    columns = [column(*documents, name=name) for name in ("document_id", "shard", "input", "row")]
    assert Counter(zip(*columns, strict=True)) == tables.described()
    place = dict(zip(column(*documents, kind="ID"), zip(*columns[2:], strict=True), strict=True))
    assert len(place) == len(columns[0])
    keys = column(*facts, kind="ID")
    assert len(set(keys)) == len(keys)
    document = dict(zip(column(*stated, kind="START_ID"), column(*stated, kind="END_ID"), strict=True))
    names = ("edge", "head_start", "head_end", "tail_start", "tail_end", "sentence_text")
    rows = zip(keys, *(column(*facts, name=name) for name in names), strict=True)
    assert tables.facts == Counter(
        (*place[document[key]], tables.edges[edge]["label"], *values) for key, edge, *values in rows
    )
    values = (column(*mentions, name=name) for name in ("start", "end", "text"))
    ends = column(*mentions, kind="END_ID")
    assert tables.mentions == Counter((*place[end], *row) for end, *row in zip(ends, *values, strict=True))


RDF = {"turtle": "TURTLE", "ntriples": "N_TRIPLES", "jsonld": "JSON_LD"}


def read_triples(path, name):
    return [
        (triple.subject.value, triple.predicate.value, triple.object.value)
        for triple in oxigraph.parse(path=path, format=getattr(oxigraph.RdfFormat, RDF[name]))
    ]


def check_rdf(path, tables, report):
    at, of_type = defaultdict(lambda: defaultdict(list)), defaultdict(list)
    short = {iri: prefix for prefix, iri in PREFIXES.items()}
    triples = set(read_triples(path, path.name))
    for subject, predicate, value in triples:
        for iri, prefix in short.items():
            predicate = predicate.replace(iri, f"{prefix}:")
        at[subject][predicate].append(value)
        if predicate == "rdf:type":
            of_type[value.rpartition("#")[2]].append(subject)

    def one(subject, name):
        values = at[subject][name]
        assert len(values) <= 1, (subject, name, values)
        return values[0] if values else None

    def place(document):
        return one(document, "srn:input"), int(one(document, "srn:row"))

    def characters(subject):
        return int(one(subject, "nif:beginIndex")), int(one(subject, "nif:endIndex"))

    documents = of_type["Context"]
    assert tables.described() == Counter(
        (one(each, "dcterms:identifier"), one(each, "srn:shard"), *place(each)) for each in documents
    )
    facts = Counter()
    for fact in of_type["Fact"]:
        document = one(fact, "prov:wasDerivedFrom")
        ends = [one(fact, "srn:head"), one(fact, "srn:tail")]
        sentence = one(fact, "prov:wasQuotedFrom")
        assert {one(each, "nif:referenceContext") for each in (sentence, *ends)} == {document}
        label = one(one(fact, "rdf:predicate"), "rdfs:label")
        facts[(*place(document), label, *characters(ends[0]), *characters(ends[1]), one(sentence, "nif:anchorOf"))] += 1
    assert facts == tables.facts
    assert tables.mentions == Counter(
        (*place(one(each, "nif:referenceContext")), *characters(each), one(each, "nif:anchorOf"))
        for each in of_type["Phrase"]
    )


CHECKS = {
    **dict.fromkeys(("graphml", "gexf"), check_networkx),
    **dict.fromkeys(RDF, check_rdf),
    **dict.fromkeys(("neo4j-csv", "neo4j-parquet"), check_neo4j),
    "csv": check_csv,
}
