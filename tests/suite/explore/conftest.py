"""Models that the page is tested with, and its server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from suite.checkpoint import save_checkpoint
from suite.model import ModelConfig, Transformer
from suite.text.tokenizer import Tokenizer

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
ADDRESS = "http://127.0.0.1:8642"


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model shaped like GPT-2, whose tokens are HTML that would run if it were parsed."""
    torch.manual_seed(0)
    tokenizer = Tokenizer.train([HOSTILE] * 20, 330)
    config = ModelConfig(vocab_size=tokenizer.vocab_size, context=48, d_model=32, n_layer=2, n_head=4)
    transformer = Transformer(config).eval()
    for parameter in transformer.parameters():
        parameter.data = torch.randn_like(parameter) * 0.2
    directory = tmp_path_factory.mktemp("explore") / "tiny"
    save_checkpoint(directory, config, transformer.state_dict(), tokenizer, task="lm")
    return directory


@pytest.fixture(scope="session")
def client(tiny: Path) -> Iterator[Any]:
    """The page's server, showing the tiny model first; modules that use it skip themselves without the extra."""
    from starlette.testclient import TestClient

    from suite.explore.app import create_app

    with TestClient(create_app(str(tiny)), base_url=ADDRESS) as found:
        yield found
