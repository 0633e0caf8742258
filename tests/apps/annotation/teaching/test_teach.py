"""``cascade-srn teach`` against a scripted server."""

import json
import multiprocessing
import random
import signal
import threading
import time

import pytest
from tests.apps.annotation.teaching.scripted_server import completion, label, sentence_of, serving
from tests.cli.conftest import failure, restore_sigint, run, start

from cascade_srn.apps.annotation.annotations import annotation_of
from cascade_srn.apps.annotation.learning import Learner, read_curve
from cascade_srn.apps.annotation.project import TEACHER, Project
from cascade_srn.apps.annotation.suggestions import Suggestions, order_documents, read_priorities
from cascade_srn.apps.annotation.teaching.endpoint import Reply
from cascade_srn.apps.annotation.teaching.ledger import ANSWERS, TEACHING, Budget, BudgetSpent, Ledger
from cascade_srn.apps.annotation.teaching.prompts import Question
from cascade_srn.apps.annotation.teaching.summary import describe, summarize
from cascade_srn.cli import main
from cascade_srn.errors import ConfigError

LABELS = """
entities:
  Party: {description: A side of the contract., examples: [Tenant, Landlord]}
  Thing: What a party owes.
relations:
  OWES: {definition: The head has to give the tail., heads: [Party], tails: [Thing]}
"""
EMPTY = {"version": 0, "state": "done", "note": "", "entities": [], "relations": [], "rejected": []}
PRELOADED = ("cli.teach", "apps.annotation.teaching.run", "apps.annotation.teaching.summary", "inputs.sources")
WHO = ("Tenant", "Landlord", "Supplier", "Buyer", "Agent")
WHAT = ("rent", "deposit", "goods", "invoice", "fee", "report")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a file of labels and 30 clauses."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CASCADE_SRN_TEACHER_KEY", raising=False)
    (tmp_path / "labels.yaml").write_text(LABELS, encoding="utf-8")
    (tmp_path / "texts").mkdir()
    # Each clause has words of its own, because near-duplicates are not selected.
    letters = "abcdefghijklmnopqrstuvwxyzäöüß"
    pairs = [(who, what) for who in WHO for what in WHAT]
    clauses = [f"The {who} {c}ays the {what} {c}ithin {c}ays." for c, (who, what) in zip(letters, pairs, strict=True)]
    for n in range(3):
        (tmp_path / "texts" / f"{n}.txt").write_text(" ".join(clauses[n::3]), encoding="utf-8")
    return tmp_path


def arguments(url, *more, sentences=10):
    options = {"--endpoint": url, "--model": "m", "--sentences": sentences, "--rounds": 1, "--output": "project"}
    return ["teach", "labels.yaml", "texts", *(part for pair in options.items() for part in pair), *more]


def stored(kind="answer"):
    with open(f"project/{TEACHING}/{ANSWERS}", encoding="utf-8") as lines:
        return [one for line in lines if line.endswith("\n") and (one := json.loads(line))["kind"] == kind]


def test_a_project_with_labels_of_the_teacher(place, capsys, monkeypatch):
    monkeypatch.setenv("CASCADE_SRN_TEACHER_KEY", "k1")
    with serving() as server:
        assert run(*arguments(server.url, "--price", "1,2")) == 0
        printed = capsys.readouterr()
        assert run(*arguments(server.url, "--price", "1,2")) == 0  # nothing is asked again
        assert "requests about" not in capsys.readouterr().err
    assert len(server.requests) == 20
    assert {headers["authorization"] for headers in server.headers} == {"Bearer k1"}
    expected = (
        f"20 requests about 10 sentences are sent to {server.url}/chat/completions and nowhere else, with the key"
    )
    assert expected in printed.err
    assert "20 answers, 10 of 10 sentences labelled, 20 entities, 10 relations" in printed.out
    assert "2,000 tokens of questions, 400 of answers, 0.0028 in money" in printed.out
    assert "no score. Check some of the 2 held-out sentences" in printed.out
    assert "k1" not in printed.out + printed.err + (place / "project" / TEACHING / ANSWERS).read_text(encoding="utf-8")
    with Project.open("project") as project:
        assert len(project.unchecked()) == 10
        (first, *_) = project.documents
        annotation = project.annotation(first, TEACHER)
        assert {mark.origin for mark in (*annotation.entities, *annotation.relations)} == {TEACHER}
        assert annotation.version == 1  # the second run has not written it again
        assert annotation.note == "m, agreement of the answers 1.00"
        assert {one["document"] for one in stored()} == set(project.documents)
        assert project.labels.examples["entities"]["Party"] == ("Tenant", "Landlord")
    assert run("project", "export", "project", "out.jsonl") == 0
    assert run("project", "status", "project") == 0
    assert "Teacher m: 20 answers" in capsys.readouterr().out


def test_doubtful_sentences_come_first_and_bad_answers_are_counted(place, capsys):
    def script(number, body):
        sentence, is_second = sentence_of(body), "Precision matters" in body["messages"][0]["content"]
        if "Buyer" in sentence:
            return (200, {}, completion(None, message={"refusal": "No."}))
        if "Agent" in sentence and is_second:
            return "Sorry, I do not know."
        return label(body).replace("Landlord", "Tenant") if "Landlord" in sentence else label(body)

    with serving(script) as server:
        assert run(*arguments(server.url, sentences=30)) == 0
    printed = capsys.readouterr()
    assert "12 not a quote of the text" in printed.out
    assert "12 x the model refuses to answer" in printed.out
    assert "6 x the answer is not JSON" in printed.out
    assert printed.err.count("the model refuses to answer") == 12
    with Project.open("project") as project:
        suggestions = Suggestions(project.folder)
        suggestions.refresh()
        order = [id for id in order_documents(project, suggestions) if not project.is_held_out(id)]
        texts = [project.documents[id].text for id in order]
        n_buyers = sum("Buyer" in text for text in texts)
        assert all("Buyer" in text for text in texts[:n_buyers])  # those without any label
        assert all("Tenant" in text or "Supplier" in text for text in texts[-3:])
        assert not any("Buyer" in project.documents[id].text for id in project.done(TEACHER))


def test_scores_on_what_a_person_checked_are_kept_apart(place):
    with serving() as server:
        assert run(*arguments(server.url, "--price", "1,2", sentences=20)) == 0
    with Project.open("project") as project:
        held_out = next(id for id in project.documents if project.is_held_out(id))
        checked = project.annotated(held_out, TEACHER)
        person = annotation_of(checked)
        project.save(held_out, "anna", type(person)(0, "done", "", person.entities[:1]))
        curve = project.folder / "training" / "curve.jsonl"
        curve.parent.mkdir()
        scores = {"ner": 0.5, "re": None, "n_held_out": 1}
        curve.write_text(json.dumps(scores | {"teacher": {"ner": 0.9, "re": 0.8, "n_held_out": 4}}) + "\n")
        found = summarize(project)
        assert found["checked"] == 1
        assert found["teacher_f1"] == {"entities": pytest.approx(2 / 3), "relations": 0.0}
        assert found["cost_per_point"] == {"ner": pytest.approx(0.0056 / 50), "re": None}
        lines = "\n".join(describe(found))
        assert "Student against the teacher (agreement): NER F1 90.0, strict RE F1 80.0 on 4" in lines
        assert "Student against persons (score): NER F1 50.0, strict RE F1 - on 1" in lines
        # The person's annotation counts, also if the teacher's is saved later.
        project.save_all({held_out: annotation_of(checked)}, TEACHER)
        assert len(project.annotated(held_out).entities) == 1
        assert held_out not in project.unchecked()


def test_a_budget_is_never_exceeded(place, capsys):
    limits = ("--budget", "0.02", "--price", "1,10", "--max-tokens", "100", "--parallel", "3")
    with serving(lambda number, body: (200, {}, completion(label(body), (400, 100)))) as server:
        assert run(*arguments(server.url, *limits)) == 1
        printed = capsys.readouterr()
        assert "the budget does not allow another request" in printed.err
        first = len(server.requests)
        assert first * 0.0014 <= 0.02 < (first + 4) * 0.0014
        assert run(*arguments(server.url, *limits[:1], "0.05", *limits[2:])) == 0
        assert len(server.requests) == 20
    assert "requests about" in printed.err


def test_requests_of_a_killed_process_count(tmp_path):
    def ledger():
        made = Ledger(tmp_path, "m", Budget(tokens=2500), max_tokens=1000)
        made.open_for_writing()
        return made

    question, other = (Question("d", n, "p", "What is this?", 0.0) for n in range(2))
    first = ledger()
    first.reserve(question)
    first.reserve(other)
    with pytest.raises(BudgetSpent):
        first.reserve(other)
    again = ledger()  # the first process was killed
    assert (again.spent.n_open, again.get(question)) == (2, None)
    with pytest.raises(BudgetSpent):
        again.reserve(question)
    again.release(other)
    again.store(question, Reply("{}", "", (5, 7)))
    with (tmp_path / TEACHING / ANSWERS).open("ab") as handle:
        handle.write(b'{"kind": "answer", "key"')  # torn by a kill
    last = ledger()
    assert (last.spent.n_open, last.spent.tokens, last.get(question)["content"]) == (0, (5, 7), "{}")
    last.reserve(other)
    with pytest.raises(ConfigError, match="needs prices"):
        Budget(money=1.0)


def test_dry_run_sends_and_writes_nothing(place, capsys):
    assert run(*arguments("http://127.0.0.1:9/v1", "--dry-run", "--price", "1,2", "--rounds", "3")) == 0
    printed = capsys.readouterr().out
    assert "20 requests would be sent" in printed
    assert "in money, at most about" in printed
    assert not (place / "project").exists()


def test_other_inputs_own_prompts_and_more_sentences(place, capsys):
    (place / "notes.csv").write_text("name,clause\nx,The Buyer pays the fee now.\n", encoding="utf-8")
    (place / "own-v7.txt").write_text("{{labels}}\nSentence: {{sentence}}", encoding="utf-8")
    own = ("--prompt", "own-v7.txt", "--samples", "1")
    with serving() as server:
        given = [part if part != "texts" else "notes.csv" for part in arguments(server.url, *own, "--field", "clause")]
        assert run(*given) == 0
        assert "only 1 different sentence" in capsys.readouterr().err
        assert run(*arguments(server.url, *own, sentences=5)) == 0
    assert len(server.requests) == 5
    assert [one["prompt"] for one in stored()] == ["own-v7"] * 5


def test_one_line_for_each_mistake(place, capsys):
    (place / "typo.yaml").write_text("entities: [Party]\nrelation: [OWES]\n", encoding="utf-8")
    url = "http://127.0.0.1:9/v1"
    assert "unknown section 'relation'" in failure(
        capsys, *["typo.yaml" if a == "labels.yaml" else a for a in arguments(url)]
    )
    assert "not a web address" in failure(capsys, *arguments("localhost:9"))
    assert "needs prices" in failure(capsys, *arguments(url, "--budget", "5"))
    assert "two numbers" in failure(capsys, *arguments(url, "--price", "5"))
    assert not (place / "project").exists()
    assert run(*arguments(url, "--retries", "0")) == 2  # no server
    assert "have no answer (the server cannot be reached" in capsys.readouterr().err
    with serving(lambda number, body: (401, {}, {"error": {"message": "wrong key"}})) as server:
        assert run(*arguments(server.url)) == 2
    assert "401 (wrong key). Set the environment variable CASCADE_SRN_TEACHER_KEY" in capsys.readouterr().err
    with (place / "labels.yaml").open("a", encoding="utf-8") as labels:
        labels.write("  LIKES: Another one.\n")
    assert "the labels are not those of project" in failure(capsys, *arguments(url))


def test_failed_questions_do_not_stop_the_others_and_are_asked_next_time(place, capsys):
    with serving(lambda number, body: (500, {}, b"") if "Tenant" in sentence_of(body) else label(body)) as server:
        assert run(*arguments(server.url, "--retries", "0", "--parallel", "30", sentences=30)) == 1
    assert "12 questions have no answer" in capsys.readouterr().err
    with serving() as server:
        assert run(*arguments(server.url, sentences=30)) == 0
    assert len(server.requests) == 12


def test_ctrl_c_keeps_what_was_asked(place):
    both_asked = threading.Barrier(3)

    def script(number, body):
        if number > 4:
            both_asked.wait(30)
            time.sleep(0.3)  # both answers are under way when the signal comes
        return label(body)

    with serving(script) as server:
        process = start(*arguments(server.url, "--parallel", "2"), preexec_fn=restore_sigint)
        both_asked.wait(60)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        n_asked = len(server.requests)
        assert len(stored()) == n_asked == 6
        server.script = lambda number, body: label(body)
        assert run(*arguments(server.url)) == 0
        assert len(server.requests) == 20


@pytest.mark.slow
def test_twenty_kills_lose_nothing_and_pay_nothing_twice(place):
    rng = random.Random(0)
    questions = {}  # how often each one was asked
    kept = set()
    # Processes that are forked from one that has imported everything start at once.
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload([f"cascade_srn.{name}" for name in PRELOADED])

    def script(number, body):
        time.sleep(rng.uniform(0, 0.03))
        return label(body)

    with serving(script) as server:
        for _ in range(20):
            before = len(server.requests)
            given = list(map(str, arguments(server.url, "--parallel", "4", "--samples", "8", sentences=30)))
            process = processes.Process(target=main, args=(given,))
            process.start()
            while len(server.requests) < before + 4 and process.is_alive():
                time.sleep(0.01)
            time.sleep(rng.uniform(0, 0.1))
            assert process.is_alive()
            process.kill()
            process.join()
            now = {one["key"] for one in stored()}
            assert kept <= now  # none lost
            kept = now
        assert run(*arguments(server.url, "--samples", "8", sentences=30)) == 0
        for body in server.requests:
            question = body["messages"][0]["content"], body["seed"]
            questions[question] = questions.get(question, 0) + 1
    answers = stored()
    assert len({one["key"] for one in answers}) == len(answers) == len(questions) == 240  # each stored once
    # Only requests under way at a kill, four at most, were sent again. All of them were noted before.
    n_sent = sum(questions.values())
    assert n_sent - 240 <= 20 * 4
    assert n_sent <= len(stored("asked")) <= 240 + 20 * 4


def test_models_are_scored_only_on_what_a_person_has_checked(place):
    with serving() as server:
        assert run(*arguments(server.url, sentences=20)) == 0
    with Project.open("project") as project:
        held_out = [id for id in project.documents if project.is_held_out(id)]
        train, scored = Learner(project)._split()
        assert (len(train), scored) == (20 - len(held_out), [])
        project.save(held_out[0], "anna", project.annotation(held_out[0], "anna").from_dict(EMPTY))
        assert [one.id for one in Learner(project)._split()[1]] == held_out[:1]


@pytest.mark.slow
def test_a_second_round_follows_the_doubt_of_a_student(place, capsys):
    with serving(lambda number, body: "{}" if number == 1 else label(body)) as server:
        assert run(*arguments(server.url, "--encoder", "fresh", "--rounds", "2")) == 0
    printed = capsys.readouterr()
    assert "training a student with 5 sentences" in printed.err
    assert "Student against the teacher (agreement): NER F1" in printed.out
    assert "Student against persons: no score" in printed.out
    assert len(server.requests) == 20
    with Project.open("project", read_only=True) as project:
        point = read_curve(project)[-1]
        assert (point["n_held_out"], point["teacher"]["n_held_out"]) == (0, 1)
        # The student does not replace the doubt of the teacher.
        priorities = read_priorities(project.folder)
        assert priorities.keys() == project.documents.keys()
        assert project.documents[max(priorities, key=priorities.get)].text == sentence_of(server.requests[0])
