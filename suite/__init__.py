"""One decoder-only transformer that does real jobs."""
