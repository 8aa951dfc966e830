"""The page for those who come from Optiland runs too."""

import pytest

pytest.importorskip("optiland.nonsequential", reason="needs the extra optiland: make test-optiland")

from ..docs.pages import ELSEWHERE, PAGES, run_page


@pytest.mark.parametrize("name", sorted(ELSEWHERE))
def test_a_page_runs_from_top_to_bottom(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (path,) = (path for path in PAGES if path.name == name)
    run_page(path, lambda: capsys.readouterr().out)
