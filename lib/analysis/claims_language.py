"""What language models of Penn Treebank (LEM's Tables 6 and 7) say of the text's claims."""

import xarray as xr

from lib.analysis.network_claims import Networks, drawn
from lib.analysis.networks import in_measure
from lib.results.claims import Finding, Judges, smallest

CHARACTERS, WORDS = "PTB characters", "PTB words"
MEASURE = {CHARACTERS: "bits", WORDS: "perplexity"}
RNNS, GATED = ("antisymmetric", "Lipschitz", "expRNN", "coRNN"), ("LSTM", "GRU")
OF_WORDS = ("Lipschitz", "FastRNN", "LSTM", "LEM")

judges = Judges("language")


def in_units(ds: xr.Dataset) -> xr.Dataset:
    """Return `ds` in the text's units: bits a character and the perplexity of a word."""
    for task, measure in MEASURE.items():
        ds = in_measure(ds, measure, [task])
    return ds


def networks(ds: xr.Dataset, task: str) -> Networks:
    """Return the networks of one of the tasks in the text's units."""
    return Networks(in_units(ds), task)


def _words(**scores: float):
    levels = {(name, WORDS): scores.get(name, 200.0) for name in OF_WORDS}
    return drawn(levels, spread=0.02, guess=700.0, measure="perplexity")


def _characters(**scores: float):
    levels = {(name, CHARACTERS): scores.get(name, 2.0) for name in (*RNNS, *GATED, "LEM")}
    return drawn(levels, spread=0.015, guess=4.3, measure="bits")


@judges.judge("lem-5-ptbword-lstm", false=_words(LEM=205.0), true=_words(LEM=150.0))
def lem_beats_the_lstm_on_words(ds: xr.Dataset) -> Finding:
    return networks(ds, WORDS).ratio("LEM", "LSTM")


@judges.judge("lem-5-ptbword-lead", false=_words(), true=_words(LEM=150.0))
def lem_leads_on_words(ds: xr.Dataset) -> Finding:
    return networks(ds, WORDS).leads("LEM", OF_WORDS)


@judges.judge("lem-5-ptbchar-gated", false=_characters(LEM=2.01), true=_characters(LEM=1.7))
def lem_beats_the_gated_on_characters(ds: xr.Dataset) -> Finding:
    return networks(ds, CHARACTERS).leads("LEM", GATED)


@judges.judge("lem-5-ptbchar-lead", false=_characters(), true=_characters(LEM=1.7))
def lem_leads_on_characters(ds: xr.Dataset) -> Finding:
    return networks(ds, CHARACTERS).leads("LEM")


@judges.judge(
    "lem-5-ptbchar-rnns", false=_characters(coRNN=1.9), true=_characters(LSTM=1.7, GRU=1.7)
)
def gated_beat_the_long_memories(ds: xr.Dataset) -> Finding:
    held = networks(ds, CHARACTERS)
    return smallest(held.lead(gated, rnn) for gated in GATED for rnn in RNNS)
