"""A translator of a dozen words, trained in seconds, that knows them well enough to be tested."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from suite.checkpoint import save_checkpoint
from suite.model import ModelConfig, Transformer
from suite.tasks.translate.format import Languages, encode, special_tokens
from suite.text.tokenizer import Tokenizer
from suite.training.batches import Batch, Example
from suite.training.loss import language_modelling

WORDS = {
    "de": ["der", "Hund", "Katze", "Haus", "Vogel", "sieht", "liebt", "sucht", "und", "heute"],
    "en": ["the", "dog", "cat", "house", "bird", "sees", "loves", "seeks", "and", "today"],
    "fr": ["le", "chien", "chat", "maison", "oiseau", "voit", "aime", "cherche", "et", "maintenant"],
}
DIRECTIONS = (("de", "en"), ("en", "de"), ("fr", "en"))
LONGEST = 5
STEPS, RATE = 220, 1e-2


def sentence(language: str, words: list[int]) -> str:
    return " ".join(WORDS[language][word] for word in words) + "."


@pytest.fixture(scope="session")
def words(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The directory of a model that translates up to five words one by one: German and English, and French to English.

    It has never seen a word twice in a sentence, nor a capital letter at a start.
    """
    chance = random.Random(0)
    torch.manual_seed(0)
    texts = [sentence(language, chance.sample(range(10), LONGEST)) for language in WORDS for _ in range(100)]
    tokenizer = Tokenizer.train(texts, 400, special_tokens(sorted(WORDS)))

    def example() -> Example:
        source, target = chance.choice(DIRECTIONS)
        drawn = chance.sample(range(10), chance.randint(1, LONGEST))
        tokens, prefix, start = encode(tokenizer, sentence(source, drawn), sentence(target, drawn), source, target)
        return Example(np.array(tokens), prefix, start)

    config = ModelConfig(
        vocab_size=tokenizer.vocab_size,
        context=64,
        d_model=64,
        n_layer=2,
        n_head=4,
        position="rotary",
        norm="rms",
        bias=False,
        tie_embeddings=False,
    )
    transformer = Transformer(config).train()
    for parameter in transformer.parameters():
        if parameter.dim() == 2:
            parameter.data *= 4  # the usual deviation is for large models; a small one starts ten times as slowly
    optimizer = torch.optim.AdamW(transformer.parameters(), lr=RATE, betas=(0.9, 0.98))
    loss = language_modelling()
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1, (step + 1) / 20) * (1 - step / STEPS)
        batch = Batch.collate([example() for _ in range(32)])
        total, count, _ = loss(transformer, batch)
        optimizer.zero_grad()
        (total / count).backward()
        torch.nn.utils.clip_grad_norm_(transformer.parameters(), 1.0)
        optimizer.step()
    known = Languages(
        languages=tuple(sorted(WORDS)),
        directions=DIRECTIONS,
        source_limit=2 * LONGEST,
        length_ratio={f"{source}-{target}": (0.0, 0.2) for source, target in DIRECTIONS},
    )
    directory: Path = tmp_path_factory.mktemp("words")
    save_checkpoint(directory, config, transformer.state_dict(), tokenizer, task="translate", extra=known.to_extra())
    return str(directory)
