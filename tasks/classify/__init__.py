"""Classification: a head on the same stack, at the `<cls>` position."""
