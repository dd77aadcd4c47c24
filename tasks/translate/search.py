"""The search: sentences batched by length, beam search, and the terms of a glossary."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from suite.model import Transformer
from suite.sampling import beam_search
from suite.task import Prompt
from suite.tasks.translate import glossary as terms
from suite.tasks.translate.align import Alignment, align
from suite.tasks.translate.format import FRAME, Languages, prompt
from suite.tasks.translate.plan import SentenceJob
from suite.tasks.translate.results import TranslationHypothesis
from suite.tasks.translate.score import target_logprobs
from suite.tasks.translate.stand_ins import stand_ins
from suite.text.tokenizer import Tokenizer

GROWTH, ROOM = 2, 10  # a translation may have `GROWTH` times the tokens of its source, and `ROOM` more
RARE = 3  # tokens of a word from which on it is rare
BATCH_TOKENS = 16384  # positions of all beams in a batch: bounds memory


class SentenceTranslator:
    """Translates single sentences.

    Args:
        transformer: in evaluation mode.
        tokenizer: its own.
        known: its languages.
        length_penalty: the power of the length that a hypothesis' log-probability is divided by.
        batch_tokens: positions of all beams of a batch at most.
    """

    def __init__(
        self,
        transformer: Transformer,
        tokenizer: Tokenizer,
        known: Languages,
        *,
        length_penalty: float,
        batch_tokens: int = BATCH_TOKENS,
    ) -> None:
        self.transformer, self.tokenizer, self.known = transformer, tokenizer, known
        self.length_penalty, self.batch_tokens = length_penalty, batch_tokens

    def translate(
        self, jobs: Sequence[SentenceJob], beams: int, n_best: int, progress: Callable[[int], object] | None
    ) -> list[list[TranslationHypothesis]]:
        """The `n_best` hypotheses for each sentence, best first; those with the glossary's terms come before others.

        Where the best one lost a link, a long number or a rare name, it comes after one that has it.
        """
        wide = [beams if job.terms else n_best for job in jobs]
        found = self._search(jobs, beams, max(wide, default=1), progress)
        self._keep_things(jobs, found, beams)
        return [
            self._with_terms(job, hypotheses, beams)[:n_best] if job.terms else hypotheses[:n_best]
            for job, hypotheses in zip(jobs, found, strict=True)
        ]

    def alignment(self, text: str, tokens: Sequence[int], source: str, target: str) -> Alignment:
        """Align a sentence with the tokens of its translation."""
        causal = self.known.causal
        there = prompt(self.tokenizer, text, source, target, causal=causal)
        back = None
        if (target, source) in self.known.directions:
            translation = self.tokenizer.decode(tokens).strip()
            start = prompt(self.tokenizer, translation, target, source, causal=causal)
            back = (start, self.tokenizer.encode(text))
        return align(self.transformer, self.tokenizer, (there, tokens), back)

    # ---- beam search

    def _search(
        self,
        jobs: Sequence[SentenceJob],
        beams: int,
        n_best: int,
        progress: Callable[[int], object] | None = None,
    ) -> list[list[TranslationHypothesis]]:
        prompts = [self._prompt(job, job.forced) for job in jobs]
        found: list[list[TranslationHypothesis]] = [[] for _ in jobs]
        for batch in self._batches([len(one.tokens) for one in prompts], beams):
            chosen = [prompts[place] for place in batch]
            results = beam_search(
                self.transformer,
                [one.tokens for one in chosen],
                beams=beams,
                n_best=n_best,
                max_new_tokens=[self._most(len(one.tokens)) for one in chosen],
                stop_tokens=(self.tokenizer.specials["<eos>"],),
                length_penalty=self.length_penalty,
                prefixes=[one.prefix for one in chosen],
            )
            starts = [self._prompt(jobs[place], "") if jobs[place].forced else prompts[place] for place in batch]
            forced = [tuple(one.tokens[len(start.tokens) :]) for one, start in zip(chosen, starts, strict=True)]
            before = [0.0] * len(batch)
            if any(forced):
                before = target_logprobs(self.transformer, starts, forced)
            for place, hypotheses, ids, logprob in zip(batch, results, forced, before, strict=True):
                found[place] = [
                    self._hypothesis((*ids, *one.tokens), logprob + one.logprob, one.finish) for one in hypotheses
                ]
            if progress is not None:
                progress(len(batch))
        return found

    def _batches(self, lengths: Sequence[int], beams: int) -> Iterator[list[int]]:
        """Indices of prompts of like length, as many as fit; the longest first, so that memory fails at once."""
        batch: list[int] = []
        for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
            longest = lengths[batch[0]] if batch else 0
            if batch and (len(batch) + 1) * beams * (longest + self._most(longest)) > self.batch_tokens:
                yield batch
                batch = []
            batch.append(place)
        if batch:
            yield batch

    def _most(self, length: int) -> int:
        """New tokens at most, for a prompt of `length` tokens."""
        return max(1, min(GROWTH * (length - FRAME + 1) + ROOM, self.transformer.config.context - length))

    def _prompt(self, job: SentenceJob, forced: str) -> Prompt:
        return prompt(self.tokenizer, job.source, *job.languages, causal=self.known.causal, forced=forced)

    def _hypothesis(self, tokens: tuple[int, ...], logprob: float, finish: str) -> TranslationHypothesis:
        length = len(tokens) + (finish == "stop")
        text = " ".join(self.tokenizer.decode(tokens).split())  # a line end of the model's own would spoil the layout
        score = logprob / max(1, length)
        return TranslationHypothesis(text=text, tokens=tokens, logprob=logprob, score=score, finish=finish)

    # ---- links, numbers and names

    def _keep_things(
        self, jobs: Sequence[SentenceJob], found: Sequence[list[TranslationHypothesis]], beams: int
    ) -> None:
        """Put a translation by stand-ins before the hypotheses of each sentence whose best one lost something."""
        kept = []
        for job, hypotheses in zip(jobs, found, strict=True):
            if not job.forced and not job.terms:
                made = stand_ins(job.source, hypotheses[0].text, job.languages, self._rare)
                if made is not None:
                    kept.append((dataclasses.replace(job, source=made.source), made, job, hypotheses))
        again = self._search([changed for changed, *_ in kept], beams, 1)
        for (_, made, job, hypotheses), [best] in zip(kept, again, strict=True):
            text = made.restored(best.text)
            if text is None:
                continue
            tokens = tuple(self.tokenizer.encode(text))
            start = self._prompt(job, "")
            if best.finish == "stop" and len(start.tokens) + len(tokens) < self.transformer.config.context:
                end = self.tokenizer.specials["<eos>"]
                [logprob] = target_logprobs(self.transformer, [start], [[*tokens, end]])
                kept_all = self._hypothesis(tokens, logprob, "stop")
                hypotheses.insert(0, dataclasses.replace(kept_all, judged=(made.source, best)))

    def _rare(self, word: str) -> bool:
        return len(self.tokenizer.encode(f" {word}")) >= RARE

    # ---- terms of a glossary

    def _with_terms(
        self, job: SentenceJob, hypotheses: list[TranslationHypothesis], beams: int
    ) -> list[TranslationHypothesis]:
        """Hypotheses that have the job's terms first; where none has, the model is made to use them."""
        if not terms.missing(job.terms, hypotheses[0].text):
            return hypotheses
        for one in hypotheses[1:]:
            if not terms.missing(job.terms, one.text) and self._in_place(job, one):
                return [one, *(other for other in hypotheses if other != one)]
        best = hypotheses[0]
        for _ in job.terms:
            lacking = terms.missing(job.terms, best.text)
            if not lacking:
                break
            alignment = self.alignment(job.source, best.tokens, *job.languages)
            spelt = self.tokenizer.decode(best.tokens)
            openings = [terms.openings(spelt, job.source, pair, alignment, job.forced) for pair in lacking]
            # from left to right, because what comes after an opening is written anew
            first = min((some for some in openings if some), key=lambda some: len(some[0]), default=[])
            tries = [dataclasses.replace(job, forced=opening) for opening in first]
            found = [one for [one] in self._search(tries, beams, 1)]
            better = [one for one in found if len(terms.missing(job.terms, one.text)) < len(lacking)]
            if not better:
                break
            best = next((one for one in better if one.finish == "stop"), better[0])
        return [best, *(one for one in hypotheses if one != best)]

    def _in_place(self, job: SentenceJob, hypothesis: TranslationHypothesis) -> bool:
        """Whether each term's translation comes from the term."""
        alignment = self.alignment(job.source, hypothesis.tokens, *job.languages)
        spelt = self.tokenizer.decode(hypothesis.tokens)
        return all(terms.in_place(spelt, job.source, pair, alignment) for pair in job.terms)
