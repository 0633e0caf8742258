"""Examples at the end of the help of each command."""

import typer

EXAMPLES: dict[str, tuple[str, ...]] = {
    "adapt": (
        "cascade-srn adapt abstracts.jsonl.gz --encoder allenai/scibert_scivocab_uncased --output adapted",
        "cascade-srn adapt papers/ --holdout test.json --output adapted --resume",
    ),
    "annotate": (
        "cascade-srn annotate project --texts abstracts/ --labels labels.yaml --model scierc-small --open",
        "cascade-srn annotate project",
    ),
    "benchmark corpus": ("cascade-srn benchmark corpus --device cpu",),
    "benchmark extract": ("cascade-srn benchmark extract --model runs/example --data test.jsonl",),
    "benchmark few-shot": (
        "cascade-srn benchmark few-shot --data crossre/politics,scierc/dygie --seeds 3",
        "cascade-srn benchmark few-shot --data mycorpus --sizes 50,100,200,all --encoders encoders/mine",
    ),
    "benchmark precision": ("cascade-srn benchmark precision --data dev.json,test.json",),
    "benchmark growth": ("cascade-srn benchmark growth --no-plot",),
    "benchmark runtimes": ("cascade-srn benchmark runtimes --models scierc-small,light --data dev.json",),
    "benchmark serve": ("cascade-srn benchmark serve --device cpu",),
    "benchmark srn": ("cascade-srn benchmark srn --device cuda",),
    "benchmark teach": (
        "cascade-srn benchmark teach --data crossre/politics,crossre/science --sizes 50,100",
        "cascade-srn benchmark teach --data scierc/dygie --starts '' --encoders encoders/all-MiniLM-L6-v2",
    ),
    "benchmark train": ("cascade-srn benchmark train --device cuda",),
    "calibrate": ("cascade-srn calibrate runs/example/best dev.jsonl --output calibrated --by-label",),
    "corpus status": ("cascade-srn corpus status out",),
    "corpus verify": ("cascade-srn corpus verify out --json",),
    "distil": (
        "cascade-srn distil runs/large/best --text abstracts.jsonl --recipe student.yaml --output runs/student",
    ),
    "download": ("cascade-srn download scierc --output data/scierc",),
    "evaluate": (
        "cascade-srn evaluate runs/example test.jsonl --per-label",
        "cascade-srn evaluate seed-0 seed-1 seed-2 test.jsonl --report report",
        "cascade-srn evaluate test.json --predictions pure.json --against spert.json",
    ),
    "export": (
        "cascade-srn export runs/example/best --output light",
        "cascade-srn export runs/example/best --output light-int8 --int8 --dev dev.jsonl",
    ),
    "extract": (
        'cascade-srn extract --text "We train a CRF for named entity recognition."',
        "cascade-srn extract papers/ --output found.jsonl",
        "cascade-srn extract papers.csv --field abstract --id-field doi --keep title,year --output found.csv",
        "cascade-srn extract paper.pdf --model runs/example --format html --output paper.html",
    ),
    "graph build": ("cascade-srn graph build found.jsonl --output graph",),
    "graph explain": ('cascade-srn graph explain graph "conditional random field"',),
    "graph export": ("cascade-srn graph export graph --output graph.graphml --min-count 2",),
    "graph neighbours": ('cascade-srn graph neighbours graph "named entity recognition" --type Material',),
    "graph path": ('cascade-srn graph path graph BERT "question answering"',),
    "graph remove": ("cascade-srn graph remove graph --ids 2020.b",),
    "graph serve": ("cascade-srn graph serve graph --open",),
    "graph sync": ("cascade-srn graph sync graph papers",),
    "graph trends": ("cascade-srn graph trends graph BERT LSTM --plot trends.svg",),
    "graph triples": (
        "cascade-srn graph triples graph --head Method --relation USED-FOR --tail Task --by year --top 3",
        'cascade-srn graph triples graph --tail "*entity recognition*" --evidence 1 --format csv',
    ),
    "graph update": ("cascade-srn graph update graph new.jsonl",),
    "info": ("cascade-srn info scierc-small", "cascade-srn info runs/example --json"),
    "mcp": ("cascade-srn mcp --graph graph", "cascade-srn mcp --graph graph --http --port 8002"),
    "models": ("cascade-srn models", "cascade-srn models --json"),
    "push": ("cascade-srn push runs/example/best me/my-model",),
    "project add": ("cascade-srn project add project more.jsonl",),
    "project agreement": ("cascade-srn project agreement project anna ben",),
    "project create": (
        "cascade-srn project create project abstracts/ --labels labels.yaml --model scierc-small",
        "cascade-srn project create project --data train.json --guidelines guidelines.md",
    ),
    "project export": ("cascade-srn project export project corpus.jsonl",),
    "project import": ("cascade-srn project import project tasks.json --from label-studio --annotator anna",),
    "project status": ("cascade-srn project status project",),
    "project train": ("cascade-srn project train project",),
    "reproduce": ("cascade-srn reproduce list", "cascade-srn reproduce main --quick"),
    "select": (
        "cascade-srn select papers/ --model scierc-small --n 200 --output next.jsonl",
        "cascade-srn select abstracts.csv --field abstract --strategy diversity --output tasks.json",
    ),
    "serve": ("cascade-srn serve --port 8000", "cascade-srn serve --model runs/example --host 0.0.0.0"),
    "teach": (
        "cascade-srn teach labels.yaml texts/ --endpoint http://localhost:8000/v1 --model NAME --output project",
        "cascade-srn teach labels.yaml notes.csv --endpoint URL --model NAME --budget 5 --price 0.15,0.60 -o project",
    ),
    "train": (
        "cascade-srn train recipe.yaml training.epochs=5",
        "cascade-srn train recipe.yaml --seeds 5 --jobs 2",
        "cascade-srn train recipe.yaml --raw texts/",
    ),
}


def add_examples(app: typer.Typer, prefix: str = "") -> None:
    """Add the examples to all commands that have no text of their own at the end of their help."""
    for command in app.registered_commands:
        name = command.name or getattr(command.callback, "__name__", "").replace("_", "-")
        if lines := EXAMPLES.get(f"{prefix}{name}"):
            # Paragraphs, because the lines of a paragraph are joined.
            text = "\n\n".join(["Examples:" if len(lines) > 1 else "Example:", *(f"  {line}" for line in lines)])
            command.epilog = command.epilog or text
    for group in app.registered_groups:
        if group.typer_instance is not None:
            add_examples(group.typer_instance, f"{prefix}{group.name} ")
