"""All numbers of the paper that the laboratory uses, each with its table or figure. Nothing here was measured by us.

Figures are numbered in the order of the paper's source.
"""

from dataclasses import dataclass
from typing import Any

EPOCHS_PER_ROUND = 80
"""Section V-A."""
TRAINING_IMAGES = {"cifar10": 50_000, "cifar100": 50_000, "svhn": 604_388}
"""By data set, section V-A. The paper's SVHN has the extra set: 604,388 images for training and 630,420 in all; it
prints 604,833 in all and 630,420 for training."""
BATCH_SIZES = {"resnet34": 256, "vgg16": 512, "mobilenetv2": 128, "densenet121": 128}
"""By network, section V-A; that of DenseNet-121 is from the table of pruning settings."""


@dataclass(frozen=True)
class Reported:
    """What the paper says in one table or figure: where, in words, and in numbers."""

    where: str
    says: str
    values: dict[str, Any]


COMPARISON = Reported(
    "Section V (all systems on one workload)",
    "CAUSE retrains least; more shards make it retrain less",
    {"systems": ["cause", "sisa", "arcane", "omp-70", "omp-95"]},
)

ABLATION = Reported(
    "Section IV (the parts of CAUSE)",
    "partition, shard controller, replacement and pruning each help; the paper exchanges one at a time in Table III, "
    "Figure 17 and the text on FiboR",
    {"parts": ["UCDP", "SC", "FiboR", "RCMP"]},
)

POLICY_MAP = Reported(
    "Section IV-C (FiboR)",
    "FiboR keeps a mix of old and new sub-models and beats static, FIFO and random replacement; no policy of the paper "
    "learns",
    {"policies": ["fibor", "random", "fifo", "static"]},
)

BALANCE = Reported(
    "Section IV-B and Algorithm 1 (UCDP)",
    "users are grouped so that shards are about equally large",
    {"algorithm": 1},
)

LINEARITY = Reported(
    "Figure 2 (retraining time and energy against the retraining ratio)",
    "time and energy are linear in the number of retrained samples, for all four backbones",
    {"backbones": ["resnet34", "vgg16", "densenet121", "mobilenetv2"]},
)

# backbone: data set, accuracy, parameters (M) and file (MB) unpruned; then for each rate accuracy, parameters (M),
# file (MB), retraining and pruning time (s)
_PRUNED: dict[str, dict[str, Any]] = {
    "vgg16": {
        "dataset": "cifar10",
        "original": [0.6740, 15.05, 53.02],
        "10": [0.6584, 12.040, 48.9879, 750.09, 0.5729],
        "30": [0.6600, 9.036, 40.8060, 716.54, 0.4045],
        "50": [0.6613, 6.031, 31.1364, 749.84, 0.8214],
        "70": [0.6466, 3.026, 19.7250, 750.31, 0.4046],
        "90": [0.4340, 0.171, 5.3768, 749.84, 0.4103],
    },
    "resnet34": {
        "dataset": "cifar10",
        "original": [0.7192, 23.61, 85.82],
        "10": [0.7076, 15.7276, 65.3355, 749.22, 2.2910],
        "30": [0.7169, 12.4481, 56.3608, 739.90, 2.0324],
        "50": [0.7256, 9.1686, 45.5214, 753.44, 2.0485],
        "70": [0.7275, 4.7748, 30.1478, 746.37, 2.1464],
        "90": [0.5742, 0.3144, 8.4376, 737.20, 4.8679],
    },
    "densenet121": {
        "dataset": "cifar100",
        "original": [0.5683, 7.14, 26.24],
        "10": [0.5702, 5.670, 21.7729, 971.86, 5.2532],
        "30": [0.5636, 4.275, 17.5123, 968.31, 5.3697],
        "50": [0.5644, 2.881, 13.0240, 983.78, 4.6839],
        "70": [0.5589, 1.487, 8.1287, 957.20, 5.0167],
        "90": [0.1650, 0.162, 2.4860, 982.17, 5.3000],
    },
    "mobilenetv2": {
        "dataset": "cifar10",
        "original": [0.7879, 2.18, 7.71],
        "10": [0.8086, 1.738, 7.2262, 211.49, 0.8017],
        "30": [0.8091, 1.327, 6.1087, 212.01, 0.7976],
        "50": [0.8055, 0.915, 4.7611, 211.25, 0.7997],
        "70": [0.7946, 0.504, 3.1716, 212.42, 0.8011],
        "90": [0.1000, 0.113, 1.1935, 219.33, 0.8047],
    },
}
# Table V: optimizer, batch size, training epochs
PRUNING_SETTINGS = {
    "vgg16": ("sgd", 128, 150),
    "resnet34": ("adam", 80, 50),
    "densenet121": ("rmsprop", 128, 100),
    "mobilenetv2": ("adam", 128, 50),
}
PRUNING = Reported(
    "Table II (performance with different pruning rates; settings in Table V)",
    "up to 70 % nothing much is lost, at 90 % a lot; at 70 % files shrink by 62.80 to 74.21 %",
    _PRUNED,
)

SHARDS = Reported(
    "Figures 5 and 15 (accuracy against the number of shards)",
    "accuracy falls with S; CAUSE's falls least",
    {
        # system: accuracy of ResNet-34 on CIFAR-10 at S = 1 and 16 (text to Figure 15)
        "cifar10": {
            "cause": {"1": 0.7056, "16": 0.6068},
            "sisa": {"1": 0.7006, "16": 0.3602},
            "arcane": {"1": 0.7013, "16": 0.1000},
            "omp-70": {"1": 0.6641, "16": 0.4101},
            "omp-95": {"1": 0.5302, "16": 0.3643},
        },
        # CAUSE alone (text to Figure 5)
        "figure 5": {"cifar10": {"1": 0.7164, "16": 0.6069}, "svhn": {"1": 0.8904, "16": 0.7636}},
        # CAUSE's accuracy over the other's, mean over S: SVHN, VGG-16 on CIFAR-100, MobileNetV2 on CIFAR-10
        "ratios": {
            "sisa": [1.15, 1.34, 1.17],
            "arcane": [1.72, 2.22, 2.09],
            "omp-70": [1.06, 1.64, 1.18],
            "omp-95": [1.27, 2.15, 1.90],
        },
    },
)

CONTROLLER = Reported(
    "Table III (with and without the shard controller)",
    "the controller raises accuracy and lowers RSN at every S above 1",
    {
        "accuracy": {
            "cause": {"1": 0.7164, "2": 0.7055, "4": 0.6931, "8": 0.6254, "16": 0.6068},
            "cause-no-sc": {"1": 0.7164, "2": 0.6683, "4": 0.6456, "8": 0.5809, "16": 0.5515},
        },
        "rsn": {
            "cause": {"1": 586_482, "2": 288_546, "4": 147_698, "8": 76_568, "16": 67_732},
            "cause-no-sc": {"1": 586_482, "2": 328_311, "4": 163_855, "8": 82_797, "16": 68_324},
        },
    },
)

SC_FUNCTION = Reported(
    "Figure 9 and Equation 1 (the shard control function)",
    "S_t falls from S to γS, faster with a larger p",
    {"p": 0.5, "gamma": 0.5},
)

POLICIES = Reported(
    "Section IV-D (text on FiboR)",
    "FiboR retrains less than random replacement",
    {"fibor": 143_226, "random": 154_193},
)

EPOCHS = Reported(
    "Figures 10 and 18 (accuracy of a single model over 80 epochs)",
    "CAUSE is above every other system",
    {
        # how much higher CAUSE's accuracy is, relatively
        "resnet34 cifar10": {"sisa": 0.3032, "arcane": 1.6386, "omp-70": 0.2656, "omp-95": 0.4963},
        "resnet34 svhn": {"sisa": 0.0728, "arcane": 0.9428, "omp-70": 0.0565, "omp-95": 0.1635},
        "vgg16 cifar100": {"sisa": 0.3782, "arcane": 1.9413, "omp-70": 0.6651, "omp-95": 0.8851},
        "mobilenetv2 cifar10": {"sisa": 0.0526, "arcane": 1.8173, "omp-70": 0.1087, "omp-95": 0.8747},
    },
)

ROUNDS = Reported(
    "Figure 11 (retrained samples over the rounds)",
    "CAUSE's RSN, added up, grows from 825 to 7,269; in the end 9.23 % of SISA's and ARCANE's, 16.15 % of OMP's",
    {
        "first": 825,
        # CAUSE's is in the text, the others' follow from the shares
        "last": {"cause": 7_269, "sisa": 78_754, "arcane": 78_754, "omp-70": 45_009, "omp-95": 45_009},
        "share": {"sisa": 0.0923, "arcane": 0.0923, "omp-70": 0.1615, "omp-95": 0.1615},
    },
)

MEMORY = Reported(
    "Figure 14a (RSN against the memory, 0.5 to 4 GB)",
    "CAUSE retrains least at every memory; all retrain more as memory shrinks",
    {"less": {"sisa": 0.8075, "arcane": 0.8065, "omp-70": 0.7538, "omp-95": 0.7093}},
)

RHO = Reported(
    "Figure 14b (RSN against the unlearning probability, 0.1 to 0.5)",
    "CAUSE retrains least at every ρ; all grow with it",
    {"less": {"sisa": 0.8086, "arcane": 0.8087, "omp-70": 0.7460, "omp-95": 0.7436}},
)

RSN_SHARDS = Reported(
    "Figure 16 (RSN against the number of shards)",
    "CAUSE's falls by 88.45 % from S = 1 to S = 16; that of the others grows",
    {"cause": CONTROLLER.values["rsn"]["cause"], "fall": 0.8845},
)

ENERGY_SHARDS = Reported(
    "Figure 12 (energy against the number of shards, ρ = 0.3)",
    "at S = 16 CAUSE takes a quarter to a third of the others' energy, mean of four backbones",
    {"share": {"sisa": 0.2505, "arcane": 0.2521, "omp-70": 0.3014, "omp-95": 0.3379}},
)

ENERGY_RHO = Reported(
    "Figure 13 (energy against the unlearning probability, S = 8)",
    "CAUSE takes 78 to 83 % less than the others, mean of four backbones",
    {"less": {"sisa": 0.8345, "arcane": 0.8346, "omp-70": 0.7804, "omp-95": 0.7782}},
)

PARTITIONS = Reported(
    "Figure 17 (partitions: CAUSE, CAUSE-U, CAUSE-C)",
    "UCDP keeps most accuracy as S grows, and retrains least",
    {"accuracy lost": {"cause": 0.1694, "cause-u": 0.2300, "cause-c": 0.4508}},
)
