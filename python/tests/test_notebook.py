"""The notebook of the documentation, executed as Jupyter does, and what its cells show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "docs" / "python" / "tour.ipynb"


@pytest.fixture(scope="module")
def shown(private_home: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each cell of code ends with, by MIME type."""
    nbformat = pytest.importorskip("nbformat", reason="nbclient is not installed")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    directory = str(tmp_path_factory.mktemp("notebook"))
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": directory}}).execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [next((dict(o.data) for o in cell.outputs if o.output_type == "execute_result"), {}) for cell in cells]


def test_the_notebook_is_stored_without_outputs() -> None:
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert '"outputs": []' in text and '"output_type"' not in text and '"execution_count": null' in text


def test_cells_show_verdicts(shown: list[dict[str, Any]]) -> None:
    _, right, wrong, simplest, repaired = shown
    assert "30/30 passed, 0 failed" in right["text/plain"]
    assert re.search(r"softmax: \d+/30 passed, \d+ failed", wrong["text/plain"])
    assert "float32[1,1,65]" in simplest["text/plain"], "one row, and the first column that is wrong"
    assert "pass" in repaired["text/plain"]
    assert all(len(cell["text/plain"]) < 2000 for cell in shown[1:]), "a verdict is no dump"


def test_the_error_map_is_a_picture_of_what_is_wrong(shown: list[dict[str, Any]]) -> None:
    html = shown[2]["text/html"]
    drawn = re.findall(r"<pre[^>]*>(.*?)</pre>", html, re.S)
    rows = [line for line in drawn[-1].splitlines() if re.fullmatch(r"[.1-9@]+", line)]
    assert rows, html
    # The first two thirds of each row are right, the last third is not.
    for row in rows:
        third = len(row) // 3
        assert set(row[: 2 * third]) <= {"."} and set(row[2 * third + 1 :]) <= set("123456789@"), row
