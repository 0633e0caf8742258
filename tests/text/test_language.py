import pytest

from cascade_srn.text.language import LanguageCheck, LanguageCounts

TEXTS = {
    "German": "Wir stellen ein neues Verfahren vor, das Entitäten und Relationen gemeinsam aus wissenschaftlichen "
    "Texten extrahiert. Die Ergebnisse auf drei Datensätzen zeigen, dass es nicht schlechter ist als das beste.",
    "French": "Nous présentons une nouvelle méthode pour extraire les entités et les relations dans les textes "
    "scientifiques. Les résultats sur trois jeux de données montrent que la méthode est robuste.",
    "Spanish": "Presentamos un nuevo método para extraer las entidades y las relaciones de los textos científicos. Los "
    "resultados en tres conjuntos de datos muestran que el método es robusto.",
    "Russian": "Мы представляем новый метод совместного извлечения сущностей и отношений из научных текстов. "
    "Результаты на трёх наборах данных показывают, что он не хуже лучших методов по качеству и гораздо быстрее.",
}
ENGLISH = (
    "We present a new method that extracts entities and relations jointly from scientific texts. The results on three "
    "data sets show that it is no worse than the best methods."
)
# Little prose, but no other language.
PLAIN = (
    "Model Precision Recall F1 CRF 81.2 80.1 80.6 BiLSTM 83.0 82.5 82.7 BERT 86.1 85.9 86.0 SciBERT 87.2 86.8 87.0",
    "x = y + z * w ; for i , j do x [ i ] [ j ] += w [ j ] * y [ i ] ; α β γ ; return x",
    "Smith et al. 2019. Jones et al. 2020. Van den Berg and De Vries 2021. Proceedings ACL. Proceedings EMNLP.",
)


@pytest.mark.parametrize("language", TEXTS)
def test_a_text_in_another_language_is_noted_once_per_file(language):
    check, words = LanguageCheck(lambda: ("en",)), TEXTS[language].split()
    assert check.note("a.jsonl, line 1", ENGLISH.split()) == ""
    assert check.note("a.jsonl, line 2", words).startswith("a.jsonl, line 2: ")
    assert check.note("a.jsonl, line 3", words) == ""
    assert check.note("b.txt", words)
    assert check.note("c.txt", words[:19]) == ""


@pytest.mark.parametrize("languages", [(), ("de",), ("en", "de")])
def test_only_models_for_english_alone_are_checked(languages):
    assert LanguageCheck(lambda: languages).note("a.txt", TEXTS["German"].split()) == ""


@pytest.mark.parametrize("text", PLAIN)
def test_tables_formulas_and_references_are_not_foreign(text):
    counts = LanguageCounts()
    counts.add(text.split())
    assert counts.words >= 17
    assert not counts.is_foreign
