from cascade_srn.formats.base import ReadContext
from cascade_srn.formats.json_records import Value
from cascade_srn.formats.reports import Place


def test_fields_that_are_not_read_are_noted_in_the_order_of_the_file():
    """Enough of them that no other order, such as that of a set, comes to the same by chance."""
    names = [f"field-{(7 * number) % 30}" for number in range(30)]
    context = ReadContext()
    Value({"text": "", **dict.fromkeys(names, 1), "id": ""}, Place("file")).note_unread(("id", "text"), context)
    assert list(context.report.noted) == [f"field {name!r} not read" for name in names]
    assert list(context.report.examples) == list(context.report.noted)
