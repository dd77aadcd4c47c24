"""What the default commands read."""

import click
import pytest

from suite.task.kit.commands import texts


def test_a_file_name_among_several_texts_is_refused() -> None:
    """Of one text it was; of two, the name itself was answered."""
    assert texts(("one", "two"), None) == ["one", "two"]
    with pytest.raises(click.UsageError, match=r"'article\.txt' looks like a file name"):
        texts(("one", "article.txt"), None)
