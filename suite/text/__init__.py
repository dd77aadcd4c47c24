"""Text as token ids."""

from suite.text.tokenizer import Tokenizer

__all__ = ["Tokenizer"]
