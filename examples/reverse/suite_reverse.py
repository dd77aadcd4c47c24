"""`reverse`: a word in, the word backwards out. Sequence: `<bos> word <sep> drow <eos>`, loss behind `<sep>`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from suite.data.documents import read_lines
from suite.task import Codec, Prompt, Result, Task


@dataclass(frozen=True, kw_only=True)
class Reversed(Result):
    """A word and its letters backwards."""

    source: str
    text: str


class ReverseCodec(Codec[str, str, Reversed]):
    """Writes words as sequences and reads answers back."""

    def encode(self, record: str) -> Any:
        import numpy as np

        from suite.training.batches import Example

        prompt = self.prompt(record).tokens
        answer = [*self.tokenizer.encode(record[::-1]), self.tokenizer.specials["<eos>"]]
        return Example(np.array([*prompt, *answer]), prefix=len(prompt), target=len(prompt))

    def prompt(self, given: str) -> Prompt:
        specials = self.tokenizer.specials
        tokens = [specials["<bos>"], *self.tokenizer.encode(given), specials["<sep>"]]
        return Prompt(tokens=tokens, prefix=len(tokens))

    def decode(self, given: str, tokens: Sequence[int]) -> Reversed:
        return Reversed(source=given, text=self.tokenizer.decode(tokens))


class Reverse(Task[str, str, Reversed]):
    """The task."""

    name, summary = "reverse", "spell words backwards"

    def records(self, data: Sequence[str]) -> Iterator[str]:
        return read_lines(data)

    def codec(self, tokenizer: Any, settings: Mapping[str, Any]) -> ReverseCodec:
        return ReverseCodec(tokenizer, settings)

    def score(self, result: Reversed, record: str) -> Mapping[str, float]:
        return {"exact": float(result.text == record[::-1])}

    def baselines(self, records: Sequence[str]) -> Mapping[str, Callable[[str], Reversed]]:
        return {"copy": lambda word: Reversed(source=word, text=word)}
