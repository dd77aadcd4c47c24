"""The decoder-only transformer, its configuration, attention and key/value cache."""

from suite.model.cache import KVCache
from suite.model.config import ModelConfig
from suite.model.transformer import Transformer

__all__ = ["KVCache", "ModelConfig", "Transformer"]
