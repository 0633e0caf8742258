import pytest
from tests.evaluation.report.example import example

from cascade_srn.evaluation.report import write_report


@pytest.fixture(scope="session")
def analysis():
    """The analysis as plain values."""
    return example().to_dict()


@pytest.fixture(scope="session")
def report_file(analysis, tmp_path_factory):
    return write_report(analysis, tmp_path_factory.mktemp("report"))
