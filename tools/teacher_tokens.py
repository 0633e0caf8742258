"""Count the tokens of questions to a teacher and of correct answers, with a server of llama.cpp that counts them.

    python tools/teacher_tokens.py labels.yaml dev.json --server http://127.0.0.1:8080

Each annotated sentence is put into the first bundled prompt. Its annotations, in the form of an answer, are what a
teacher without errors would say.
"""

from __future__ import annotations

import argparse
import json

import requests

from cascade_srn import read_documents
from cascade_srn.apps.annotation.annotations import read_labels
from cascade_srn.apps.annotation.teaching.prompts import DEFAULT_PROMPTS, Prompt
from cascade_srn.types import Document


def texts(document: Document, prompt: Prompt, labels: str) -> list[tuple[str, str]]:
    """Return question and answer for each sentence."""
    found, known = [], read_labels(labels)
    for sentence in document.sentences:
        text = document.text[sentence.start : sentence.end]
        ids = {span: f"e{number}" for number, span in enumerate(sentence.entities, 1)}
        entities = [
            {
                "id": id,
                "quote": document.text[sentence.offsets[span.start][0] : sentence.offsets[span.end - 1][1]],
                "type": span.label,
            }
            for span, id in ids.items()
        ]
        relations = [{"head": ids[one.head], "type": one.label, "tail": ids[one.tail]} for one in sentence.triples]
        answer = json.dumps({"entities": entities, "relations": relations}, ensure_ascii=False)
        found.append((prompt.fill(known, text), answer))
    return found


def main() -> None:
    """Print the means."""
    parser = argparse.ArgumentParser(description="Count the tokens of questions and correct answers.")
    parser.add_argument("labels", help="file with labels for the questions")
    parser.add_argument("data", help="annotated documents")
    parser.add_argument("--server", required=True, help="address of a server of llama.cpp")
    options = parser.parse_args()
    documents, prompt = list(read_documents(options.data)), Prompt.read(DEFAULT_PROMPTS[0])
    pairs = [pair for document in documents for pair in texts(document, prompt, options.labels)]

    def count(text: str) -> int:
        answer = requests.post(f"{options.server}/tokenize", json={"content": text}, timeout=60)
        return len(answer.json()["tokens"])

    questions, answers = (sum(map(count, side)) / len(pairs) for side in zip(*pairs, strict=True))
    print(f"{len(documents)} documents, {len(pairs)} sentences")
    print(f"tokens of a sentence: {questions:.0f} of the question, {answers:.0f} of the answer")


if __name__ == "__main__":
    main()
