"""Text classification: a linear head reads the transformer's hidden state at the `<cls>` token."""
