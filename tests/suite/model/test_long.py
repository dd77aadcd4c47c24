"""Long contexts: local windows in blocks, and compressed keys and values, against masks over all pairs."""

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from suite.errors import ConfigError, SuiteError
from suite.model import KVCache, ModelConfig, Transformer, compressed, plan
from suite.model.attention import local
from suite.model.attention_maps import attention_maps
from suite.model.plan import CompressedWhole, Local, make_plan
from suite.model.quantize import prepare_for_inference
from suite.sampling import Sampling, generate
from suite.training.optimizer import build_optimizers
from suite.training.recipe import OptimizerConfig

KINDS: dict[str, dict[str, Any]] = {
    "rotary": {"position": "rotary", "compress": (0, 3)},
    "learned": {"compress": (3, 3), "n_kv_head": 2},
    "local-compressed": {"position": "rotary", "windows": (4, 0), "compress": (1, 3), "qk_norm": True, "n_kv_head": 1},
    "two-strides": {"position": "rotary", "compress": (4, 2)},
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def shape(context: int = 40, **fields: Any) -> ModelConfig:
    return ModelConfig(vocab_size=23, context=context, d_model=32, n_layer=2, n_head=4, **fields)


def tiny(context: int = 40, **fields: Any) -> Transformer:
    """A random model with weights large enough that every difference shows."""
    torch.manual_seed(0)
    model = Transformer(shape(context, **fields))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return model.eval()


def random_tokens(rows: int, length: int) -> Tensor:
    return torch.randint(23, (rows, length), generator=torch.Generator().manual_seed(1))


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


def small_blocks(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """So that a few tokens fill several blocks, and the last not wholly."""
    monkeypatch.setattr(plan, "BLOCK", size)
    monkeypatch.setattr(plan, "COMPRESSED_BLOCK", size)


def weighted(queries: Tensor, keys: Tensor, values: Tensor, visible: Tensor) -> Tensor:
    """Attention written down plainly; `visible` is (B, T, S)."""
    groups = queries.shape[1] // keys.shape[1]
    keys, values = (part.repeat_interleave(groups, dim=1) for part in (keys, values))
    scores = torch.einsum("bhte,bhse->bhts", queries, keys) / queries.shape[-1] ** 0.5
    return torch.einsum("bhts,bhse->bhte", scores.where(visible[:, None], -torch.inf).softmax(-1), values)


def same_with_gradients(found: Tensor, expected: Tensor, leaves: list[Tensor]) -> None:
    """Equal outputs, and equal gradients of every leaf."""
    close(found, expected)
    probe = torch.arange(found.numel()).view_as(found).cos()
    mine, theirs = (
        torch.autograd.grad((out * probe).sum(), leaves, materialize_grads=True) for out in (found, expected)
    )
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


# ---- local windows


@pytest.mark.parametrize("kv_heads", [4, 2])
@pytest.mark.parametrize("prefixed", [False, True])
@pytest.mark.parametrize(("window", "length", "block"), [(1, 9, 4), (3, 16, 4), (5, 23, 4), (6, 19, 16), (2, 40, 1)])
def test_blocks_of_queries_give_what_masks_give(
    window: int, length: int, block: int, prefixed: bool, kv_heads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block that misses its first neighbour, or sees padding as a key, trains nearly as well and is never noticed."""
    small_blocks(monkeypatch, block)
    config = shape(position="rotary", windows=(window, 0), n_kv_head=kv_heads)
    torch.manual_seed(length)
    leaves = [torch.randn(3, heads, length, 8, requires_grad=True) for heads in (4, kv_heads, kv_heads)]
    prefix = torch.tensor([0, min(length, 7), length]) if prefixed else None
    pattern = make_plan(config, 3, length, prefix=prefix).patterns[0]
    assert isinstance(pattern, Local)
    t, s = torch.arange(length)[:, None], torch.arange(length)
    visible = (s <= t).expand(3, -1, -1)
    if prefix is not None:
        visible = visible | (torch.maximum(t, s) < prefix[:, None, None])
    visible = visible & ((t - s).abs() < window)
    same_with_gradients(local(*leaves, pattern, 0.0), weighted(*leaves, visible), leaves)


@torch.inference_mode()
def test_a_local_prefill_goes_on_like_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first chunk goes in blocks, later ones by masks; a window may not change where they meet."""
    small_blocks(monkeypatch, 4)
    model, tokens = tiny(position="rotary", windows=(4, 5)), random_tokens(2, 31)
    whole = model(tokens)
    monkeypatch.setattr(plan, "BLOCK", 1000)  # nothing goes in blocks
    close(model(tokens), whole)
    small_blocks(monkeypatch, 4)
    cache = KVCache(model.config, 2, 31)
    close(feed(model, tokens, [17, 24, 25, 26], cache), whole)


@torch.inference_mode()
def test_later_passes_look_at_the_keys_of_their_windows_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of decoding would otherwise read all of a long cache, and mask nearly all of what it read."""
    model, tokens = tiny(position="rotary", windows=(4, 60)), random_tokens(2, 40)
    cache, seen = KVCache(model.config, 2, 40), []
    attend = torch.nn.functional.scaled_dot_product_attention

    def watch(queries: Tensor, keys: Tensor, *rest: Any, attn_mask: Tensor | None = None, **options: Any) -> Tensor:
        seen.append((keys.shape[2], attn_mask is None))
        return attend(queries, keys, *rest, attn_mask=attn_mask, **options)

    whole = model(tokens)
    model(tokens[:, :30], cache=cache)
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", watch)
    close(feed(model, tokens[:, 30:], [3, 4], cache), whole[:, 30:])
    assert seen[:4] == [(6, False), (33, False), (4, True), (34, True)]


def test_a_cached_step_of_bfloat16_sees_all_that_came_before() -> None:
    """Plain products for short training also take a step whose caller forgot to turn gradients off."""
    model, tokens = tiny(position="rotary", windows=(0, 4)), random_tokens(1, 12)
    whole = model(tokens).detach()
    cache = KVCache(model.config, 1, 12, dtype=torch.bfloat16)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        model(tokens[:, :11], cache=cache)
    with torch.autocast("cpu", torch.bfloat16):
        last = model(tokens[:, 11:], cache=cache).detach().float()
    torch.testing.assert_close(last[0, 0], whole[0, 11], rtol=0, atol=0.1 * whole.std().item())


@torch.inference_mode()
def test_a_pass_longer_than_the_context_is_local(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that slides never looks past its context, whichever way its attention is computed."""
    model, tokens = tiny(context=6, position="rotary"), random_tokens(1, 50)
    expected = model(tokens)
    small_blocks(monkeypatch, 8)
    close(model(tokens), expected)


def test_long_passes_make_no_mask_of_all_pairs() -> None:
    """64 Ki tokens would need a mask of 4 GiB; in blocks the pass fits everywhere."""
    config = ModelConfig(vocab_size=8, context=1 << 16, d_model=4, n_layer=2, n_head=1, position="rotary",
                         windows=(16, 0), compress=(0, 3))  # fmt: skip
    patterns = make_plan(config, 1, 1 << 16).patterns
    queries = torch.randn(1, 1, 1 << 16, 4)
    assert isinstance(patterns[0], Local) and patterns[0].bias.numel() < 1 << 24
    assert local(queries, queries, queries, patterns[0], 0.0).isfinite().all()
    assert isinstance(patterns[1], CompressedWhole)
    assert not any(isinstance(field, Tensor) for field in patterns[1]), "blocks of queries make their own masks"


@pytest.mark.parametrize("fields", [{"windows": (8, 8)}, {"compress": (3, 3)}], ids=["local", "compressed"])
def test_what_training_keeps_grows_with_the_length(fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A mask or a copy of the keys that each block of queries keeps for its gradient grows with the square."""
    small_blocks(monkeypatch, 16)
    model = tiny(context=1024, position="rotary", **fields)
    kept: dict[int, int] = {}  # bytes of each storage

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    totals = []
    for length in (256, 1024):
        kept.clear()
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            hidden = model.hidden(random_tokens(1, length))
            totals.append(sum(kept.values()))
        del hidden
    assert totals[1] < 4.4 * totals[0]


# ---- compressed keys and values


@pytest.mark.parametrize("context", [40, 7])
@pytest.mark.parametrize("prefixed", [False, True])
@pytest.mark.parametrize("length", [1, 2, 3, 11, 24, 34])
@pytest.mark.parametrize("block", [3, 4, 100])
def test_blocks_and_nearest_positions_are_what_a_query_sees(
    block: int, length: int, prefixed: bool, context: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block that is seen before its last position tells the future."""
    small_blocks(monkeypatch, block)
    config = shape(context, position="rotary", compress=(3, 0), n_kv_head=2)
    torch.manual_seed(length)
    leaves = [torch.randn(3, heads, length, 8, requires_grad=True) for heads in (4, 2, 2)]
    compress = Transformer(config).blocks[0].attention.compress
    for part in compress:
        torch.nn.init.normal_(part.linear.weight, std=0.3)
    prefix = torch.tensor([0, min(length, 7), length]) if prefixed else None
    pattern = make_plan(config, 3, length, prefix=prefix).patterns[0]
    assert isinstance(pattern, CompressedWhole)
    appended = [compressed.append(None, leaf, part, pattern) for leaf, part in zip(leaves[1:], compress, strict=True)]
    found = compressed.attend(leaves[0], *appended, pattern, 0.0)
    # the reference: one matrix product a block, all blocks and all positions side by side
    count = length // 3
    everything = []
    for part, leaf in zip(compress, leaves[1:], strict=True):
        kernel = part.linear.weight + torch.eye(8).repeat(1, 3) / 3  # (E, 3 * E)
        made = [leaf[:, :, 3 * j : 3 * j + 3].flatten(2) @ kernel.T for j in range(count)]
        everything.append(torch.cat((*(one[:, :, None] for one in made), leaf), dim=2))
    t = torch.arange(length)[:, None]
    first = torch.cat((torch.arange(count) * 3, torch.arange(length)))
    last = first + torch.tensor([2] * count + [0] * length)
    reach = torch.tensor([context] * count + [3] * length)
    visible = (last <= t).expand(3, -1, -1)
    if prefix is not None:
        visible = visible | (torch.maximum(t, last) < prefix[:, None, None])
    visible = visible & ((t - first).abs() < reach)
    same_with_gradients(
        found, weighted(leaves[0], *everything, visible), [*leaves, *(p.linear.weight for p in compress)]
    )


def test_compression_starts_as_the_mean() -> None:
    """From noise, a compressed layer would begin with keys that tell nothing of their tokens."""
    compress = Transformer(shape(position="rotary", compress=(0, 3))).blocks[1].attention.compress
    x = torch.randn(2, 4, 6, 8)
    for part in compress:
        close(part(x), torch.stack((x[:, :, :3].mean(2), x[:, :, 3:].mean(2)), dim=2))


def feed(model: Transformer, tokens: Tensor, cuts: list[int], cache: KVCache, prefix: Tensor | None = None) -> Tensor:
    """The logits of all positions, read in passes that end at `cuts`; the prefix lies in the first."""
    edges = [0, *cuts, tokens.shape[1]]
    parts = [
        model(tokens[:, start:end], cache=cache, prefix=None if start else prefix)
        for start, end in itertools.pairwise(edges)
    ]
    return torch.cat(parts, dim=1)


@every_kind
@torch.inference_mode()
def test_one_token_at_a_time_equals_one_pass(kind: str) -> None:
    model, tokens = tiny(**KINDS[kind]), random_tokens(2, 20)
    close(feed(model, tokens, list(range(1, 20)), KVCache(model.config, 2, 20)), model(tokens))


@every_kind
@given(cuts=st.sets(st.integers(5, 19)), prefixed=st.booleans())
@settings(max_examples=15, deadline=None)
@torch.inference_mode()
def test_any_chunking_equals_one_pass(kind: str, cuts: set[int], prefixed: bool) -> None:
    """A chunk may end within a block, and the next completes it."""
    model, tokens = tiny(**KINDS[kind]), random_tokens(2, 20)
    prefix = torch.tensor([5, 3]) if prefixed else None
    cache = KVCache(model.config, 2, 20)
    close(feed(model, tokens, sorted(cuts), cache, prefix), model(tokens, prefix=prefix))


@every_kind
@torch.inference_mode()
def test_ragged_rows_that_slide_equal_each_row_alone(kind: str) -> None:
    """Rows complete blocks at different steps, and in a ring the oldest blocks are overwritten."""
    slides = kind != "learned"
    model, tokens = tiny(context=8 if slides else 40, **KINDS[kind]), random_tokens(2, 40)
    prefix = torch.tensor([4, 1])
    cache = KVCache(model.config, 2, 8 + 4 - 1 if slides else 40)
    for lengths in itertools.islice(itertools.cycle([[4, 1], [1, 3], [1, 1], [1, 1], [2, 0], [4, 3]]), 16):
        starts = list(cache.seen)
        part = torch.stack([row[start : start + 4] for row, start in zip(tokens, starts, strict=True)])
        part = part[:, : max(lengths)]
        logits = model(part, cache=cache, lengths=lengths, prefix=None if any(starts) else prefix)
        for row, (start, length) in enumerate(zip(starts, lengths, strict=True)):
            alone = model(tokens[row : row + 1, : start + length], prefix=prefix[row : row + 1])
            close(logits[row, :length], alone[0, start:])
    assert min(cache.seen) > 20


@every_kind
@torch.inference_mode()
def test_a_static_cache_gives_the_same(kind: str) -> None:
    """What a compiled step computes from tensors alone, the eager step computes from Python numbers."""
    model, tokens = tiny(context=16, **KINDS[kind]), random_tokens(2, 40)
    static, eager = KVCache(model.config, 2, 16), KVCache(model.config, 2, 16)
    for cache in (static, eager):
        model(tokens[:, :1], cache=cache)
    for step in range(1, 16 if kind == "learned" else 40):
        static.static = True
        logits = model(tokens[:, step : step + 1], cache=static)
        static.static = False
        static.advance([1, 1])
        close(logits, model(tokens[:, step : step + 1], cache=eager))


@pytest.mark.parametrize("seen", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("rows", [[2, 0, 1], [1], [0, 0, 1, 1, 2, 2]])
@torch.inference_mode()
def test_reordered_rows_go_on_as_their_sources_would(rows: list[int], seen: int) -> None:
    """The slots of a compressed layer are not those of the others, and a beam must take all of them along."""
    model, tokens = tiny(**KINDS["rotary"]), random_tokens(3, 12)
    cache = KVCache(model.config, 3, 12)
    model(tokens[:, :seen], cache=cache)
    cache.reorder(rows)
    close(model(tokens[rows, seen : seen + 1], cache=cache)[:, 0], model(tokens[rows, : seen + 1])[:, -1])


@torch.inference_mode()
def test_a_copied_row_goes_on_and_none_goes_back_part_of_the_way() -> None:
    """The positions before the last few are gone: a row that went back would see those after it in their place."""
    model, tokens = tiny(**KINDS["learned"]), random_tokens(2, 12)
    cache, other = KVCache(model.config, 2, 20), KVCache(model.config, 1, 11)
    model(tokens, cache=cache)
    model(tokens[1:, 1:], cache=other)
    with pytest.raises(SuiteError, match="cannot go back to 5 tokens: with compressed layers it can only to 0"):
        cache.rewind(1, 5)
    cache.rewind(1, 0)
    cache.copy_row(1, other)
    logits = model(tokens[:, :1], cache=cache)[:, 0]
    close(logits[0], model(torch.cat((tokens[0], tokens[0, :1]))[None])[0, -1])
    close(logits[1], model(torch.cat((tokens[1, 1:], tokens[1, :1]))[None])[0, -1])


@every_kind
def test_generation_past_the_context_equals_rereading(kind: str) -> None:
    """Rows restart where positions are learned, and slide where not; ragged prompts, any chunk of prefill."""
    model = tiny(context=12, **KINDS[kind])
    prompts = [random_tokens(1, 17)[0].tolist(), [3, 1], [5] * 9]
    sampling = Sampling(temperature=0)
    rows = generate(model, prompts, max_new_tokens=20, sampling=sampling, prefill_chunk=4)
    for prompt, row in zip(prompts, rows, strict=True):
        [alone] = generate(model, [prompt], max_new_tokens=20, sampling=sampling, prefill_chunk=100)
        assert row.tokens == alone.tokens
        if kind != "learned":
            again = model(torch.tensor([[*prompt, *row.tokens]])).argmax(-1)[0, len(prompt) - 1 : -1]
            assert again.tolist() == list(row.tokens)


# ---- everything else that looks into the core


def test_bfloat16_training_gives_what_float32_gives() -> None:
    model, tokens = tiny(context=400, **KINDS["rotary"]), random_tokens(2, 300)
    probe, found = torch.randn(2, 300, 32), []
    for enabled in (False, True):
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            hidden = model.hidden(tokens).float()
        (hidden * probe).sum().backward()
        gradient = model.get_parameter("blocks.1.attention.compress.0.linear.weight").grad
        assert gradient is not None
        found.append((hidden.detach(), gradient.flatten()))
    torch.testing.assert_close(found[1][0], found[0][0], atol=0.15, rtol=0.05)
    assert torch.nn.functional.cosine_similarity(found[0][1], found[1][1], dim=0) > 0.98


def test_dropout_is_the_same_when_made_again() -> None:
    """What is made again for the gradient must drop what the forward pass dropped."""
    model, tokens = tiny(dropout=0.3, **KINDS["rotary"]).train(), random_tokens(2, 12)

    def loss() -> Tensor:
        torch.manual_seed(3)
        out: Tensor = model(tokens).square().mean()
        return out

    weight = model.get_parameter("blocks.1.attention.compress.1.linear.weight")
    loss().backward()
    assert weight.grad is not None
    with torch.no_grad():
        direction = weight.grad / weight.grad.norm()
        weight += 1e-2 * direction
        above = loss()
        weight -= 2e-2 * direction
        slope = (above - loss()) / 2e-2
    assert slope.item() == pytest.approx(weight.grad.norm().item(), rel=0.02)


@pytest.mark.parametrize("length", [1, 2, 14])
@pytest.mark.parametrize("weights", ["float32", "float16", "int8"])
@torch.inference_mode()
def test_models_prepared_for_inference_compress(weights: str, length: int) -> None:
    """A prompt shorter than a block makes an empty product, which short layers need not know."""
    tokens = random_tokens(2, length)
    expected = tiny(**KINDS["rotary"])(tokens)
    found = prepare_for_inference(tiny(**KINDS["rotary"]), weights)(tokens)
    torch.testing.assert_close(found, expected, rtol=0, atol=0.1 * expected.std().item())


def test_muon_takes_matrices_alone() -> None:
    model = tiny(**KINDS["rotary"])
    _, muon = build_optimizers(model, OptimizerConfig(kind="muon"))
    assert all(parameter.dim() == 2 for parameter in muon.param_groups[0]["params"])


@pytest.mark.parametrize("prefix", [0, 7])
def test_maps_of_compressed_layers_share_a_block_among_its_positions(prefix: int) -> None:
    """Someone who looks at a map wants to see positions; each row must still sum to 1, and not tell the future."""
    model, tokens = tiny(**KINDS["rotary"]), random_tokens(1, 14)[0]
    [weights] = attention_maps(model, tokens, prefix=prefix, layers=[1])
    assert weights.shape == (4, 14, 14)
    close(weights.sum(-1), torch.ones(4, 14))
    assert (weights[:, 7:].triu(8) == 0).all()
    assert (weights[:, 13, :9].unflatten(-1, (3, 3)).std(-1) == 0).all(), "three shares of a block are alike"
    assert weights[:, 13, 13].min() > 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"compress": (3,)}, "model.compress has 1 entries for 2 layers"),
        ({"compress": (0, -3)}, "model.compress has a negative entry"),
        ({"compress": (0, 3), "windows": (0, 8)}, "both have an entry for layer 1"),
        ({"compress": (0, 41)}, "more than model.context \\(40\\)"),
        ({"compress": (0, 3), "position": "relative"}, "cannot be combined with relative positions"),
    ],
)
def test_what_does_not_fit_names_the_field(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        shape(**changes)


def test_json_and_back() -> None:
    config = shape(**KINDS["local-compressed"])
    assert ModelConfig.from_dict(config.to_dict()) == config and config.to_dict()["compress"] == [1, 3]
    old = config.to_dict()
    del old["compress"]
    assert ModelConfig.from_dict(old).compression(1) == 0, "checkpoints of before have no such field"
