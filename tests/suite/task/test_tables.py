"""The tables of a recipe, read for a task."""

from __future__ import annotations

from pathlib import Path

import pytest

from suite.errors import DataError
from suite.task.registry import find_task
from suite.training.recipe import BatchConfig, Recipe, RunConfig


def recipe(task: str, data: dict[str, list[str]]) -> Recipe:
    return Recipe(task=task, data=data, run=RunConfig(steps=1), batch=BatchConfig(size=1))


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub with one data set, `owner/name`, of three splits, and a folder without files."""
    import datasets
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", lambda *_, **__: None)
    monkeypatch.setattr(datasets, "get_dataset_split_names", lambda *_: ["train", "validation", "test"])
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", ["lm", "classify", "translate", "summarize", "music"])
def test_training_is_validated_on_the_validation_split(name: str, hub: None) -> None:
    """A data set named once for training and once for validation was read twice in the same split."""
    data = {"train": ["owner/name"], "valid": ["owner/name"]}
    tables = find_task(name).tables(recipe(name, data))
    assert (tables.data.train, tables.data.valid) == (["owner/name"], ["owner/name::validation"])
    assert "owner/name: validated on split 'validation'" in tables.notes[0]


def test_a_corpus_with_languages_before_its_name_is_too(hub: None, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    from suite.tasks.translate.corpora import read_corpora

    def load(name: str, configuration: str | None, split: str) -> list[dict[str, str]]:
        return [{"en": f"The {split}.", "de": f"Das {split}."}]

    monkeypatch.setattr(datasets, "load_dataset", load)
    data = {"train": ["en-de=owner/name"], "valid": ["en-de=owner/name"]}
    table = find_task("translate").tables(recipe("translate", data)).data
    train, valid, notes = read_corpora(table, seed=1)
    assert [pair.source for corpus in (*train, *valid) for pair in corpus.pairs] == ["The train.", "The validation."]
    assert "validated on split 'validation'" in notes[0]


def test_a_data_set_without_a_split_to_validate_on_is_refused(hub: None, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets, "get_dataset_split_names", lambda *_: ["train"])
    with pytest.raises(DataError, match="owner/name: it has no validation or test split"):
        find_task("lm").tables(recipe("lm", {"train": ["a"], "valid": ["owner/name"]}))
