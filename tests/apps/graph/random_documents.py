"""Random documents whose names are merged by all steps, and random changes of a graph."""

import random
import shutil

from tests.apps.graph.documents import document, write_lines

from cascade_srn.apps.graph import GraphSettings, build, remove, update

# Names that the steps merge or keep apart, depending on how often they and their words occur.
NAMES = """
CRF|CRFs|crf|conditional random field|conditional random fields|Conditional-Random Field|CRF model|CRF models
CRF based tagger|conditional random field based tagger|conditional random field ( CRF )|continuous random forest
BERT|Bert|bert|BERT model|BERT-model|BERTs|LSTM|LSTM model|long short-term memory|long short-term memory network
data set|dataset|datasets|SQuAD|SQuAD dataset|Squad|MAP|map|Map|C++|c plus plus|C#|c sharp
named entity recognition|Named Entity Recognition|named entity recongition|names entity recognition|NER|NER task
named entity recognition task|recognition of named entities|named entities recognition|the recognition
text classification|text clasification|text classiffication|texts classification|this method|it|our model|method
"""
NAMES = [name for line in NAMES.split("\n") for name in line.split("|") if name]
DEFINITIONS = (
    "conditional random field ( CRF )",
    "conditional random fields ( CRF )",
    "continuous random forest ( CRF )",
    "named entity recognition ( NER )",
    "Named Entity Recognition ( NER )",
    "noisy entity ranking ( NER )",
    "long short-term memory ( LSTM )",
    "BERT ( bidirectional encoder representations from transformers )",
)
# Entries that are found by all kinds of links, depending on the name and the type of a node.
VOCABULARY = """id,name,aliases,type
1,CRF,conditional random field,
2,continuous random forest,CRF,Method
3,Named Entity Recognition,NER|noisy entity ranking,Task
4,NER,,Material
5,text clasification,,
6,datasets,data-set,Material
7,Bert,,Thing
8,recognition of named entity,,
"""
RELATIONS = ("USED-FOR", "PART-OF", "COMPARE", "CONJUNCTION", "HYPONYM-OF")


def random_document(rng, name):
    """Make a document of a few sentences."""
    sentences = [(" ".join(rng.choices(("recognition", "classification", "words"), k=rng.randrange(25))) + " .", [])]
    for _ in range(rng.randrange(4)):
        names = [f"[{rng.choice(NAMES)}/{rng.choice('MMMTDG')}]" for _ in range(rng.randint(1, 4))]
        pairs = {tuple(rng.sample(range(len(names)), 2)) for _ in range(rng.randrange(4)) if len(names) > 1}
        relations = [(a, rng.choice(RELATIONS), b, round(rng.random(), 2)) for a, b in sorted(pairs)]
        between = rng.choice((" and ", " and ", " without ", " may be "))
        sentences.append((between.join(names) + " .", relations))
    sentences += [(f"We use {definition} .", []) for definition in rng.sample(DEFINITIONS, rng.choice((0, 0, 1, 2)))]
    return document(name, *sentences)


def random_settings(rng, folder):
    """Choose settings: the defaults in half of the cases, and a vocabulary in half of all."""
    (folder / "vocabulary.csv").write_text(VOCABULARY)
    vocabulary = str(folder / "vocabulary.csv") if rng.random() < 0.5 else None
    if rng.random() < 0.5:
        return GraphSettings(vocabulary=vocabulary)
    (folder / "aliases.csv").write_text("canonical,alias,label\nCRF,continuous random forest,\nparser,BERT,Method\n")
    (folder / "splits.csv").write_text("text,from\nSQuAD,Squad\nmap,\ndata set,dataset\n")
    return GraphSettings(
        types=rng.random() < 0.5,
        heads=rng.random() < 0.7,
        acronyms=rng.random() < 0.8,
        fuzzy=rng.random() < 0.8,
        generic=rng.random() < 0.3,
        keep=rng.choice(((), ("negated",), ("hedged", "negated"))),
        aliases=str(folder / "aliases.csv") if rng.random() < 0.5 else None,
        splits=str(folder / "splits.csv") if rng.random() < 0.5 else None,
        vocabulary=vocabulary,
        min_score=rng.choice((0.0, 0.3)),
        min_count=rng.choice((1, 1, 2)),
    )


def random_changes(folder, seed, n_changes):
    """Change a graph, and yield it after each change with a graph that is built from the documents that are left."""
    rng = random.Random(seed)
    settings = random_settings(rng, folder)
    files = {f"d{n}": _write(rng, folder, f"d{n}") for n in range(rng.randint(1, 30))}
    changed = folder / "graph"
    build(list(files.values()), changed, settings)
    for _ in range(n_changes):
        if rng.random() < 0.4 and len(files) > 1:
            gone = rng.sample(sorted(files), rng.randint(1, min(5, len(files) - 1)))
            remove(changed, gone)
            for name in gone:
                del files[name]
        else:
            new = {
                name: _write(rng, folder, name) for name in {f"d{rng.randrange(40)}" for _ in range(rng.randint(1, 5))}
            }
            update(changed, list(new.values()))
            files |= new
        rebuilt = folder / "rebuilt"
        shutil.rmtree(rebuilt, ignore_errors=True)
        build(list(files.values()), rebuilt, settings)
        yield changed, rebuilt


def _write(rng, folder, name):
    return write_lines([random_document(rng, name)], folder / f"{name}.jsonl")


def contents(folder):
    """Return the bytes of all files but the database and the state, which have no fixed order."""
    files = [file for file in folder.rglob("*") if file.is_file() and file.name != "graph.duckdb"]
    files = [file for file in files if file.parent.name != "state"]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}
