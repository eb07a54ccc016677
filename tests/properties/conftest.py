"""A cache for each test that must not find what others left."""

from pathlib import Path

import pytest

from tests.properties.linked import linked_cache


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of this test's."""
    folder = linked_cache(tmp_path / "cache")
    monkeypatch.setenv("HIGHWATER_CACHE", str(folder))
    return folder
