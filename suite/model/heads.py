"""A head for whole sequences: a linear layer on the hidden state of each sequence's last token.

Shapes: `B` rows, `T` positions, `D` d_model, `C` outputs of the head.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from suite.model.transformer import Transformer


def pool_last(hidden: Tensor, lengths: Tensor) -> Tensor:
    """The hidden state of each row's last real token: hidden (B, T, D) and lengths (B,) -> (B, D)."""
    return hidden[torch.arange(len(hidden), device=hidden.device), lengths - 1]


class Headed(nn.Module):
    """A transformer and the head that reads each row's last token.

    The head starts at zero, so that training starts from even odds and the first gradients do not disturb the
    transformer.

    Args:
        transformer: the core; it is shared, not copied.
        outputs: C.

    Example:
        >>> from suite.model import ModelConfig
        >>> config = ModelConfig(vocab_size=256, context=64, d_model=32, n_layer=2, n_head=4)
        >>> tokens, lengths = torch.zeros(2, 5, dtype=torch.long), torch.tensor([5, 3])
        >>> Headed(Transformer(config), 3)(tokens, lengths).shape
        torch.Size([2, 3])
    """

    def __init__(self, transformer: Transformer, outputs: int) -> None:
        super().__init__()
        self.transformer = transformer
        self.output = nn.Linear(transformer.config.d_model, outputs)
        self.dropout = nn.Dropout(transformer.config.dropout)
        nn.init.zeros_(self.output.weight)
        nn.init.zeros_(self.output.bias)

    def forward(self, tokens: Tensor, lengths: Tensor, prefix: Tensor | None = None) -> Tensor:
        """Logits of the head, (B, C).

        Args:
            tokens: (B, T) ids; rows shorter than T are padded on the right with any id.
            lengths: (B,) real tokens of each row, at least 1.
            prefix: as for `Transformer.hidden`.

        Returns:
            (B, C), float32.
        """
        return self.score(self.transformer.hidden(tokens, prefix=prefix), lengths)

    def score(self, hidden: Tensor, lengths: Tensor) -> Tensor:
        """Logits (B, C) from hidden states (B, T, D), for callers that need both."""
        scores: Tensor = self.output(self.dropout(pool_last(hidden, lengths)))
        return scores.float()
