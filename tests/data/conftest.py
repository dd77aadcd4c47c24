"""What `st.from_type(Performance)` draws: notes that meet, on the grid of 10 ms and off it, early and late."""

from hypothesis import strategies as st

from suite.data.performance import Note, Pedal, Performance

steps = st.integers(0, 300).map(lambda step: step / 100)
times = steps | st.floats(0, 3) | st.floats(10790, 10800)  # rounding errors are larger where times are late
lengths = st.just(0.0) | steps | st.floats(0, 3)
notes = st.builds(
    lambda pitch, velocity, start, length: Note(pitch, velocity, start, start + length),
    st.sampled_from([0, 60, 61, 127]),
    st.integers(1, 127),
    times,
    lengths,
)
st.register_type_strategy(
    Performance, st.builds(Performance.of, st.lists(notes), st.lists(st.builds(Pedal, times, st.booleans())))
)
