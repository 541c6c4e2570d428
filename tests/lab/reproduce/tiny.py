"""A size at which every table and figure is made in seconds, from real runs."""

from dataclasses import replace

from cause.lab.reproduce.size import QUICK

TINY = replace(
    QUICK, name="tiny", share=0.2, epochs=1, rounds=2, users=8, tests=100, seeds=2, shards=(1, 2), prune_epochs=2,
    cost_samples=16, backbones=("mobilenetv2",), energy_backbones=("mobilenetv2",), datasets=("digits",), verify=1,
    workload=300, cost_ratios=(0.25, 0.5, 1.0),
)  # fmt: skip
# of each figure, as much as is needed to see all of it work
ONLY = {
    "system": ["cause", "cause-no-sc", "cause-u", "sisa", "cause:policy=fibor", "cause:policy=random"],
    "pruning": ["none", "iterative-70"],
    "rate": ["0", "70"],
    "rho": ["0.0", "0.1", "0.3"],
    "memory": ["2GB"],
    "ages": ["uniform"],
}
