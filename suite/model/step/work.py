"""A decoding step as work for several threads: phases, and chunks of work within a phase.

    for each layer:   norm, queries, keys and values      a chunk is a head
                      attention                           a chunk is a row and key/value head
                      output, added to the residual       a chunk is some channels
                      norm, up, activation                a chunk is some channels
                      down, added to the residual         a chunk is some channels
    at the end:       norm, logits                        a chunk is some channels

Threads take chunks as they come, and a phase ends when its chunks are done, not when all threads have come by. So a
thread that the system has put aside holds up the others by the chunk in its hands at most, and one that comes late, or
never, costs nothing but its help: a single thread does the step alone.

A counter holds the number of the step in its upper half, and a count in the lower: a thread that slept through the end
of its step finds another number there, and leaves.

Shapes: `B` rows, `D` d_model, `H` heads, `K` key/value heads, `G` = H / K, `E` head width, `F` MLP width, `N` keys.
"""

from __future__ import annotations

from numba import from_dtype, njit, types

from suite.model.step.arithmetic import (
    activate,
    array,
    copy_row,
    gate,
    mix,
    normalise,
    normalise_head,
    product,
    rotate,
    softmax,
)
from suite.model.step.atomics import REST, add, floats_at, integers_at, pause, read, replace, rest, write
from suite.model.step.layout import CHUNK, FLOAT32, LAYER, LINE, MODEL, SWIGLU
from suite.model.step.multiply import KEPT, multiply

PROJECT, ATTEND, OUT, UP, DOWN, PHASES = range(6)
HEAD = PHASES  # the last phase, behind all layers
COUNT = 0xFFFFFFFF
SPINS = 2000  # looks at a counter, some tens of microseconds, before a waiting thread leaves its core to others
PATIENCE = 20  # rests before a thread without work goes to sleep
CHUNKS = 6  # a thread, at least: the last to finish keeps the others waiting for a sixth of its work at most


@njit
def channels(model, outputs):
    """Channels in a chunk of so many: a multiple of 8."""
    each = (outputs // (model.threads * CHUNKS) + 7) // 8 * 8
    return min(max(each, 16), CHUNK)


@njit
def outputs(model, layer, kind):
    """Channels in a phase that is a product."""
    if kind == HEAD:
        return model.head.outputs
    return model.ff_width if kind == UP else model.d_model


@njit
def chunks(model, layer, kind):
    """Chunks in a phase."""
    if kind == PROJECT:
        return model.n_head + 2 * model.kv_heads
    if kind == ATTEND:
        return model.rows * model.kv_heads
    count = outputs(model, layer, kind)
    return -(-count // channels(model, count))


@njit
def ticket(counters, phase):
    """The address of the counter of a phase's chunks that are taken; the line after it counts those done."""
    return counters + LINE * (1 + 2 * phase)


@njit
def take(counter, step, count):
    """The number of a chunk that nobody has taken, or -1."""
    while True:
        seen = read(counter)
        if seen >> 32 != step or seen & COUNT >= count:
            return -1
        if replace(counter, seen, seen + 1):
            return seen & COUNT


@njit
def wait(counter, step, count):
    """Wait until so many chunks are done; False if that step is over."""
    looks = 0
    while True:
        seen = read(counter)
        if seen >> 32 != step:
            return False
        if seen & COUNT == count:
            return True
        looks += 1
        if looks > SPINS:
            rest(REST)
        else:
            pause()


@njit
def begin(model, step):
    """Embed the tokens and open the phases of a step."""
    ids, places = integers_at(model.ids), integers_at(model.places)
    x = array(model.x, model.rows, model.d_model)
    for b in range(model.rows):
        copy_row(model.tokens, ids[b], x[b])
        if model.positions.weight:
            table = array(model.positions.weight, model.positions.outputs, model.d_model)
            for i in range(model.d_model):
                x[b, i] += table[places[b], i]
    for phase in range(PHASES * model.n_layer + 1):
        counter = ticket(model.counters, phase)
        write(counter, step << 32)
        write(counter + LINE, step << 32)
    write(model.counters, step)


@njit
def run(model, layers, thread, step):
    """Do a thread's part of a step; True when all of it is done, False if it was over already."""
    last = PHASES * model.n_layer
    for phase in range(last + 1):
        layer, kind = layers[min(phase // PHASES, model.n_layer - 1)], HEAD if phase == last else phase % PHASES
        counter, count = ticket(model.counters, phase), chunks(model, layer, kind)
        own = model.own + 4 * thread * model.scratch
        chunk, ready = take(counter, step, count), False
        while chunk >= 0:
            if not ready:
                prepare(model, layer, kind, own)
                ready = True
            perform(model, layer, kind, chunk, own)
            add(counter + LINE, 1)
            chunk = take(counter, step, count)
        if not wait(counter + LINE, step, count):
            return False
    return True


def work_(models, layers, thread, number):  # type: ignore[no-untyped-def]
    """Thread 0: do step `number`, with the help of whoever else is there. Others: help with the steps after `number`.

    Returns:
        the last step done; a helper returns when none has come for a millisecond or two.
    """
    model, looks = models[0], 0
    if not thread:
        begin(model, number)
        looks = SPINS + PATIENCE
        number -= 1
    while True:
        latest = read(model.counters)
        if latest != number:
            run(model, layers, thread, latest)
            number, looks = latest, looks if not thread else 0
        if looks >= SPINS + PATIENCE:
            break
        if looks >= SPINS:
            rest(REST)
        else:
            pause()
        looks += 1
    if not thread:
        end(model)
    return number


@njit
def prepare(model, layer, kind, own):
    """Normalise the residual stream, where a phase begins with that; each thread for itself, for waiting takes longer.

    Args:
        own: address of what belongs to the thread: (B, D) normalised rows, and behind them room for results.
    """
    if kind != HEAD and kind != UP and kind != PROJECT:
        return
    norm = model.norm if kind == HEAD else layer.mlp_norm if kind == UP else layer.attention_norm
    stream = model.before if kind == UP and model.parallel else model.x
    x, normed = array(stream, model.rows, model.d_model), array(own, model.rows, model.d_model)
    for b in range(model.rows):
        normalise(x[b], norm, model.rms, model.norm_eps, normed[b])


@njit
def perform(model, layer, kind, chunk, own):
    """Do a chunk of a phase."""
    behind = own + 4 * model.rows * model.d_model
    if kind == PROJECT:
        project(model, layer, chunk, own, behind)
        return
    if kind == ATTEND:
        if model.parallel and not chunk:  # nobody writes to the stream in this phase
            stream, before = array(model.x, model.rows, model.d_model), array(model.before, model.rows, model.d_model)
            for b in range(model.rows):
                for i in range(model.d_model):
                    before[b, i] = stream[b, i]
        attend(model, layer, chunk // model.kv_heads, chunk % model.kv_heads, behind)
        return
    count = outputs(model, layer, kind)
    size = channels(model, count)
    first = chunk * size
    last = min(first + size, count)
    if kind == HEAD:
        product(model.head, first, last, own, model.rows, model.logits + 4 * first, count)
    elif kind == UP:
        widen(model, layer, first, last, own, behind)
    else:
        matrix, x = (layer.out, model.mixed) if kind == OUT else (layer.down, model.wide)
        product(matrix, first, last, x, model.rows, behind, last - first)
        stream, part = array(model.x, model.rows, model.d_model), array(behind, model.rows, last - first)
        for b in range(model.rows):
            for o in range(last - first):
                stream[b, first + o] += part[b, o]


@njit
def project(model, layer, head, normed, part):
    """A head of the queries, keys or values of all rows, rotated, and stored."""
    width, heads = model.head_width, model.n_head
    product(layer.qkv, head * width, (head + 1) * width, normed, model.rows, part, width)
    made, newest = array(part, model.rows, width), integers_at(model.newest)
    cos, sin = array(model.cos, model.rows, model.rotary_width), array(model.sin, model.rows, model.rotary_width)
    for b in range(model.rows):
        if head < heads + model.kv_heads:
            if layer.query_norm.weight:
                normalise(made[b], layer.query_norm if head < heads else layer.key_norm, 1, model.norm_eps, made[b])
            elif model.qk_norm:
                normalise_head(made[b])
            if model.rotary_width:
                rotate(made[b], cos[b], sin[b])
        place = model.queries + 4 * (b * heads + head) * width
        if head >= heads:
            slot, pair = newest[b] % model.capacity, (head - heads) % model.kv_heads
            store = layer.keys if head < heads + model.kv_heads else layer.values
            place = store + 4 * ((b * model.kv_heads + pair) * model.slots + slot) * width
        out, scale = floats_at(place), model.scale if head < heads else 1.0
        for e in range(width):
            out[e] = made[b, e] * scale


@njit
def attend(model, layer, b, pair, scores):
    """Attention of the queries of a row that share a key/value head.

    The keys that they see lie in one piece of the ring, or in two.
    """
    width, group = model.head_width, model.n_head // model.kv_heads
    newest = integers_at(model.newest)[b]
    count = min(newest + 1, layer.reach, model.capacity)
    first = (newest + 1 - count) % model.capacity
    pieces = min(count, model.capacity - first)
    start = 4 * (b * model.kv_heads + pair) * model.slots * width
    queries = model.queries + 4 * (b * model.n_head + pair * group) * width
    mixed = model.mixed + 4 * (b * model.n_head + pair * group) * width
    early, late = layer.keys + start + 4 * first * width, layer.keys + start
    multiply(FLOAT32, early, width, 0, pieces, queries, width, group, scores, count)
    multiply(FLOAT32, late, width, 0, count - pieces, queries, width, group, scores + 4 * pieces, count)
    if layer.relative:
        add_relative(model, layer, pair * group, queries, scores, count)
    early, late = layer.values + start + 4 * first * width, layer.values + start
    for g in range(group):
        weights, out = scores + 4 * g * count, mixed + 4 * g * width
        softmax(array(weights, 1, count)[0])
        for e in range(width):
            floats_at(out)[e] = 0
        mix(weights, early, pieces, width, out)
        mix(weights + 4 * pieces, late, count - pieces, width, out)


@njit
def add_relative(model, layer, head, queries, out, count):
    """Add the products of queries with the keys' distances to the scores at `out`, (G, N), of heads from `head` on."""
    group = model.n_head // model.kv_heads
    scores = array(out, group, count)
    width, step = model.head_width, model.n_head * model.head_width
    near = min(count, model.span)  # keys whose distance has a row of its own; farther ones share row 0
    behind = out + 4 * group * count
    biases = array(behind, 1, count + 1)[0]
    for g in range(group):
        table, query = layer.relative + 4 * (head + g) * width, queries + 4 * g * width
        multiply(FLOAT32, table, step, 0, 1, query, width, 1, behind, 1)
        for j in range(count - near):
            scores[g, j] += biases[0]
        multiply(FLOAT32, table, step, model.span - near, model.span, query, width, 1, behind, near)
        for j in range(near):
            scores[g, count - near + j] += biases[j]


@njit
def widen(model, layer, first, last, normed, gates):
    """Channels of the MLP's inside, of all rows."""
    rows, count, gated = model.rows, last - first, model.activation == SWIGLU
    wide, behind = array(model.wide, rows, model.ff_width), model.ff_width if gated else 0
    place = model.wide + 4 * first
    product(layer.up, behind + first, behind + last, normed, rows, place, model.ff_width)
    if gated:
        product(layer.up, first, last, normed, rows, gates, count)
    for b in range(rows):
        if gated:
            gate(array(gates, rows, count)[b], wide[b, first:last])
        else:
            activate(model.activation, wide[b, first:last])


@njit
def end(model):
    """Close the phases of a step: whoever comes late finds no work, whatever the next step changes."""
    for phase in range(PHASES * model.n_layer + 1):
        counter = ticket(model.counters, phase)
        write(counter, -1)
        write(counter + LINE, -1)


SIGNATURE = types.int64(
    types.Array(from_dtype(MODEL), 1, "C"), types.Array(from_dtype(LAYER), 1, "C"), types.int64, types.int64
)
work = njit(SIGNATURE, cache=KEPT, nogil=True)(work_)
