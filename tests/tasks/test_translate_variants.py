"""Variants of training pairs: each kind on made pairs, and the same draws wherever a run starts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import pytest

from suite.data.parallel import Corpus, Pair
from suite.errors import ConfigError, DataError
from suite.tasks.translate import made
from suite.tasks.translate.corpora import FilteredCorpus, PairEncoder
from suite.tasks.translate.format import special_tokens
from suite.tasks.translate.names import NameMaker, copied_names, replaced
from suite.tasks.translate.task import TranslateTask
from suite.tasks.translate.variants import CorpusVariants, VariantsTable, cased, unpunctuated
from suite.tasks.translate.word_pairs import extract, word_pairs
from suite.text.tokenizer import Tokenizer
from suite.training.batches import Example, RedrawnSource, TokenBatches
from suite.training.recipe import Recipe

TOKENIZER = Tokenizer.bytes(special_tokens(["de", "en"]))
PAIRS = [Pair(f"Tom has {n} red Books.", f"Tom hat {n} rote Bücher.", n) for n in range(20, 60)]
VARIANTS = TranslateTask().default_recipe().with_name("variants.toml")
NAMES = NameMaker(["Tom", "Mary", "Boston"])


def variants(joined: float = 0.0, dictionary: Sequence[tuple[str, str]] = (), **shares: float) -> CorpusVariants:
    """The variants of PAIRS."""
    corpus = FilteredCorpus(corpus=Corpus(source="en", target="de", name="x"), pairs=PAIRS, note="")
    encoder = PairEncoder(TOKENIZER, True, False, 200)
    return CorpusVariants(corpus, encoder, VariantsTable(**shares), joined, dictionary, [])


def texts(example: Example) -> tuple[str, str]:
    """Source and target of an example."""
    tokens = example.tokens.tolist()
    source, target = tokens[2 : example.target - 1], tokens[example.target : -1]
    return TOKENIZER.decode(source), TOKENIZER.decode(target)


def drawn(maker: CorpusVariants, seed: int = 1) -> list[tuple[str, str]]:
    """What a maker draws."""
    return [texts(example) for example in maker.draw(Random(seed))]


# ---- each kind


def test_both_sides_lose_their_last_punctuation_or_neither_does() -> None:
    assert unpunctuated(Pair("Wait...", "Warte!", 1)) == Pair("Wait", "Warte", 1)
    assert unpunctuated(Pair("Où ça\u202f?", "Where?", 1)) == Pair("Où ça", "Where", 1)
    for kept in (Pair("Wait", "Warte!", 1), Pair("At 3 p.m.", "Um 15 Uhr.", 1), Pair("...", "...", 1)):
        assert unpunctuated(kept) is kept
    found = drawn(variants(unpunctuated=1.0))
    assert found[0] == ("Tom has 20 red Books", "Tom hat 20 rote Bücher") and found[1] == found[0][::-1]


def test_lower_case_is_of_the_source_alone_and_spares_links() -> None:
    found = drawn(variants(lower=1.0))
    assert found[:2] == [
        ("tom has 20 red books.", "Tom hat 20 rote Bücher."),
        ("tom hat 20 rote bücher.", "Tom has 20 red Books."),
    ]
    assert drawn(variants(capitals=1.0))[0] == ("TOM HAS 20 RED BOOKS.", "Tom hat 20 rote Bücher.")
    assert cased("Mail Ann@Mail.org Now", str.upper) == "MAIL Ann@Mail.org NOW"
    both = drawn(variants(lower=1.0, unpunctuated=1.0))[0]
    assert both == ("tom has 20 red books", "Tom hat 20 rote Bücher")


def test_names_and_numbers_are_replaced_on_both_sides_alike() -> None:
    assert copied_names(Pair("Hi, Tom and May", "Na, Tom und Mai", 1) for _ in range(3)) == {"Tom"}
    assert copied_names([Pair("Tom runs", "Tom rennt", 1)] * 9) == set()  # a first word has a capital anyway
    for seed in range(30):
        source, target, _ = replaced(
            Pair("Tom's train left Rome at 7:30 in 2013.", "Toms Zug verließ Rom um 7.30 Uhr im Jahr 2013.", 1),
            {"Tom", "Rome"},
            NAMES,
            Random(seed),
        )
        match = re.fullmatch(r"(\w+)'s train left Rome at (\d):([0-5]\d) in ([12]\d{3})\.", source)
        assert match is not None and match[1] != "Tom" and match[1][-1] not in "sxz"
        assert target == f"{match[1]}s Zug verließ Rom um {match[2]}.{match[3]} Uhr im Jahr {match[4]}."
    for other in (Pair("I saw 3 men.", "Ich sah 3 Männer.", 1), Pair("20 of 20", "20 von zwanzig", 1)):
        assert replaced(other, {"Tom"}, NAMES, Random(1)) is other


def test_two_numbers_never_become_one() -> None:
    """Numbers exchanged one after the other met: 45 became 54, then both became the number that 54 got."""
    for seed in range(200):
        source, target, _ = replaced(Pair("from 45 to 54", "von 45 bis 54", 1), set(), NAMES, Random(seed))
        assert re.findall(r"\d+", source) == re.findall(r"\d+", target)


def test_a_name_stays_where_french_would_elide() -> None:
    for seed in range(20):
        source, *_ = replaced(Pair("I saw Anna.", "J'ai vu Anna.", 1), {"Anna"}, NAMES, Random(seed))
        assert source.split()[-1][0] in "AEIOUÄÖÜÉÈÀHY"


@pytest.mark.parametrize("languages", [("en", "de"), ("fr", "en")])
@pytest.mark.parametrize("templates", [made.SALUTATIONS, made.CLOSINGS, made.SENTENCES])
def test_a_made_pair_has_the_same_things_on_both_sides(
    templates: tuple[tuple[str, str, str], ...], languages: tuple[str, str]
) -> None:
    maker = made.PairMaker(*languages, NAMES)
    for number, template in enumerate(templates):
        slots = [set(re.findall(r"\{\w+\}", text)) for text in template]
        assert slots[0] == slots[1] == slots[2], template
        pair = maker.fill(template, Random(number))
        assert "{" not in pair.source + pair.target
        if not slots[0] & {"{date}", "{time}", "{phone}"}:  # whose parts are written in another order, or in words
            kept = [re.sub(r"\D", "", text) for text in pair[:2]]
            assert sorted(kept[0]) == sorted(kept[1]), pair


def test_dates_times_and_amounts_follow_each_language() -> None:
    dates = [made.date(Random(seed)) for seed in range(40)]
    assert any(re.fullmatch(r"\w+ \d+, \d{4}", one["en"]) for one in dates)
    assert any(re.fullmatch(r"\d+\. \w+ \d{4}", one["de"]) for one in dates)
    assert all(re.findall(r"\d{4}", one["en"]) == re.findall(r"\d{4}", one["fr"]) for one in dates)
    assert all(made.clock(Random(seed))["de"].endswith(" Uhr") for seed in range(9))
    amounts = [made.amount(Random(seed)) for seed in range(40)]
    assert any(re.search(r"\d,\d{3}\.\d\d", one["en"]) and re.search(r"\d\.\d{3},\d\d", one["de"]) for one in amounts)


def test_several_pairs_stand_in_a_row() -> None:
    found = drawn(variants(joined=0.5))[2 * len(PAIRS) :]
    assert len(found) == len(PAIRS) // 2
    for source, target in found:
        assert source.count("Books") + source.count("Bücher") in (2, 3)
        assert source.count("Tom") == target.count("Tom")
    lines = drawn(variants(joined=0.5, unpunctuated=1.0))[2 * len(PAIRS) :]
    assert all("." not in source + target for source, target in lines)


def test_words_are_learnt_alone_in_either_direction() -> None:
    found = drawn(variants(dictionary=[("house", "Haus")], words=0.5))[2 * len(PAIRS) :]
    assert set(found) == {("house", "Haus"), ("Haus", "house")}


# ---- words by alignment


def test_words_that_translate_each_other_are_found() -> None:
    nouns = [("house", "Haus"), ("dog", "Hund"), ("tree", "Baum"), ("car", "Auto"), ("book", "Buch")]
    verbs = [("sees", "sieht"), ("likes", "mag"), ("buys", "kauft"), ("paints", "malt")]
    pairs = [
        Pair(f"The {noun} {verb} the {other}.", f"{ding} {tut} {sache}.", 1)
        for noun, ding in nouns
        for verb, tut in verbs
        for other, sache in nouns
        if noun != other
    ]
    assert set(nouns + verbs) <= set(extract(pairs))
    assert extract([]) == [] and extract([Pair("!", "?", 1)]) == []


def test_extracted_words_are_kept_by_their_pairs(tmp_path: Path) -> None:
    assert ("Books", "Bücher") in word_pairs(PAIRS, tmp_path)
    [file] = (tmp_path / "words").iterdir()
    file.write_text('[["kept", "bewahrt"]]', encoding="utf-8")
    assert word_pairs(PAIRS, tmp_path) == [("kept", "bewahrt")]
    assert word_pairs(PAIRS[1:], tmp_path) != [("kept", "bewahrt")]


# ---- draws


def everything(tmp_path: Path, *overrides: str) -> RedrawnSource:
    """The training source of the recipe's variants on a few pairs."""
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in PAIRS), encoding="utf-8")
    lines = ["base=''", "model.context=256", "model.d_model=16", "model.n_head=2", "model.n_layer=1"]
    lines += ["tokenizer.kind='bytes'", f"data.train=['en-de={file}']", f"data.valid=['en-de={file}']", *overrides]
    recipe = Recipe.load(VARIANTS, lines)
    source = TranslateTask().prepare(recipe, tmp_path / "cache").train
    assert isinstance(source, RedrawnSource)
    return source


def test_each_pass_draws_anew_and_the_same_wherever_it_starts(tmp_path: Path) -> None:
    one, other = everything(tmp_path), everything(tmp_path)
    last = 3 * one.size - 1
    places = [last, 0, 2 * one.size, one.size - 1, one.size, 7, last - 5]
    for place in places:
        assert np.array_equal(one[place].tokens, other[place].tokens)
        assert one.length(place) == len(one[place].tokens)
    forward = [everything(tmp_path)[place].tokens.tolist() for place in sorted(places)]
    assert forward == [one[place].tokens.tolist() for place in sorted(places)]
    passes = [sorted(one[place].tokens.tolist() for place in range(n * one.size, (n + 1) * one.size)) for n in (0, 1)]
    assert passes[0] != passes[1]
    seeds = everything(tmp_path, "seed=2")
    assert sorted(seeds[place].tokens.tolist() for place in range(one.size)) != passes[0]


def test_steps_are_the_same_when_a_run_goes_on_in_a_later_pass(tmp_path: Path) -> None:
    """A step's batches must not depend on which epoch the source held before."""
    source, resumed = everything(tmp_path), everything(tmp_path)
    batches, later = TokenBatches(source, 500, 1), TokenBatches(resumed, 500, 1)
    steps = [[source[index].tokens.tolist() for index in batches.indices(step)] for step in range(40)]
    assert batches.epoch >= 2  # the steps reach into a third pass
    for step in (39, 12):
        assert [resumed[index].tokens.tolist() for index in later.indices(step)] == steps[step]


def test_a_source_holds_two_epochs_and_refuses_one_of_another_size() -> None:
    calls: list[int] = []

    def draw(epoch: int) -> list[Example]:
        calls.append(epoch)
        return [Example(np.array([epoch, place])) for place in range(4 + (epoch == 3))]

    source = RedrawnSource(draw, 1)
    for index in (3, 4, 2, 5, 1, 6):  # a step that straddles two epochs
        assert source[index].tokens[0] == index // 4
    assert calls == [0, 1]
    assert source[8].tokens[0] == 2 and source[4].tokens[0] == 1 and calls == [0, 1, 2]
    with pytest.raises(DataError, match="epoch 3 has 5 examples, but the first has 4"):
        source[12]


def test_without_variants_the_examples_are_as_before(tmp_path: Path) -> None:
    shares = [f"data.variants.{key}=0" for key in ("unpunctuated", "lower", "capitals", "replaced")]
    plain = everything(tmp_path, *shares, "data.variants.words=0", "data.variants.letters=0", "data.concatenated=0")
    found = [texts(plain.examples[place]) for place in range(2 * len(PAIRS))]
    assert found == [way for pair in PAIRS for way in ((pair.source, pair.target), (pair.target, pair.source))]


def test_a_share_out_of_range_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"data\.variants\.lower is 1\.5, but must be between 0 and 1"):
        VariantsTable(lower=1.5)
    with pytest.raises(ConfigError, match="together must be at most 1"):
        VariantsTable(lower=0.7, capitals=0.7)
    with pytest.raises(ConfigError, match=r"data\.variants\.lowr"):
        TranslateTask().tables(Recipe.load(VARIANTS, ["data.variants.lowr=0.1"]))
