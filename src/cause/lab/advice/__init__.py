"""Advice: which learner, which system and how many shards suit a user's data, by measuring a few candidates on it."""

from cause.lab.advice.advise import Advice, advise
from cause.lab.advice.sample import Sample, sample_of

__all__ = ["Advice", "Sample", "advise", "sample_of"]
