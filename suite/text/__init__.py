"""Tokenizers: text to token ids and back."""

from suite.text.tokenizer import Tokenizer

__all__ = ["Tokenizer"]
