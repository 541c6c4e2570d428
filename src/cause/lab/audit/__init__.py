"""A membership-inference audit: tests whether forgotten samples differ from samples that were never learned."""

from cause.lab.audit.attacks import attack, calibrated_scores, head_probabilities, loss_scores
from cause.lab.audit.findings import Finding, finding, problems
from cause.lab.audit.roc import Estimate, auc, auc_difference, auc_interval, detectable_auc, tpr_at

__all__ = [
    "Estimate",
    "Finding",
    "attack",
    "auc",
    "auc_difference",
    "auc_interval",
    "calibrated_scores",
    "detectable_auc",
    "finding",
    "head_probabilities",
    "loss_scores",
    "problems",
    "tpr_at",
]
