"""`cause init`."""

import os
import shlex
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cause.cli import homes as h
from cause.cli import options as o
from cause.cli.additive import additive_table
from cause.cli.output import print_json, spinner
from cause.errors import InputError

if TYPE_CHECKING:
    from cause.device.config import Config, Settings
    from cause.engine.learner import Learner

KeyFile = Annotated[
    Path | None, typer.Option(help="The file with the master key. [default: a new one beside the home, HOME.key]")
]
KeyEnv = Annotated[str | None, typer.Option(help="The environment variable with the master key.")]
KeyCommand = Annotated[str | None, typer.Option(help="A command that prints the master key, a TPM's for instance.")]


def init(
    home: Annotated[Path, typer.Argument(help="The folder to make it in: a new one.", show_default=False)],
    config: Annotated[
        Path | None, typer.Option(help="Everything in one TOML file, as `cause config` prints it.")
    ] = None,
    system: Annotated[
        str | None, typer.Option(help="A preset, or one with parts exchanged. [default: recommended]")
    ] = None,
    shards: Annotated[int | None, typer.Option(help="S, the number of shards. [default: 4]")] = None,
    memory: o.MemorySize = None,
    slots: o.Slots = None,
    classes: Annotated[int | None, typer.Option(help="Number of classes. [default: 10]")] = None,
    seed: Annotated[int | None, typer.Option(help="Root seed. [default: 0]")] = None,
    storage: Annotated[str | None, typer.Option(help="The most that samples may take on the disk, as 20GB.")] = None,
    retain: Annotated[str | None, typer.Option(help='How long samples are kept, as "30 rounds" or "90 days".')] = None,
    repair: Annotated[
        str | None, typer.Option(help="Whether a forget retrains now or later, unless it says so. [default: now]")
    ] = None,
    deadline: Annotated[
        float | None, typer.Option(help="Days until a forget must be repaired, too. [default: 30]")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Processes that train. [default: 0, in this one]")] = None,
    input_shape: Annotated[
        str | None, typer.Option(help="Refuse inputs of another shape, as 8,8. [default: any that fits the learner]")
    ] = None,
    input_dtype: Annotated[
        str | None, typer.Option(help="Keep inputs as this type, as float32; refuse what it cannot hold.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="A network: cnn, mlp, resnet34 … or your module:function.")] = None,
    shape: Annotated[str | None, typer.Option(help="Shape of an input, channels first, as 1,8,8.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Epochs for each segment. [default: 10; estimators 1]")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Samples a step. [default: 64]")] = None,
    optimizer: Annotated[str | None, typer.Option(help="adam, sgd or rmsprop. [default: adam]")] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate. [default: 0.001]")] = None,
    mean: Annotated[
        str | None, typer.Option(help="Subtracted from inputs: a number, or one a channel, as 120,115,99. [default: 0]")
    ] = None,
    std: Annotated[
        str | None, typer.Option(help="What inputs are divided by, likewise; 255 for bytes. [default: 1]")
    ] = None,
    class_weights: Annotated[
        str | None, typer.Option(help="How much a sample of each class counts, as 1,1,4. [default: all the same]")
    ] = None,
    loss: Annotated[
        str | None, typer.Option(help="Your module:function of outputs and labels. [default: cross entropy]")
    ] = None,
    network_dtype: Annotated[
        str | None, typer.Option(help="float32, or int64: whole numbers stay so. [default: what the network takes]")
    ] = None,
    width: Annotated[int | None, typer.Option(help="Width of cnn or mlp; other options go into --config.")] = None,
    init: Annotated[
        str | None, typer.Option(help="Public weights to start from: a .safetensors file, or efficientnet-lite0.")
    ] = None,
    freeze: Annotated[
        str | None, typer.Option(help="Layers of a network that are not trained, as _conv_stem,_blocks.0.")
    ] = None,
    estimator: Annotated[
        str | None, typer.Option(help="An estimator of scikit-learn instead of a network, as GaussianNB.")
    ] = None,
    features: Annotated[
        int | None, typer.Option(help="Numbers in an input of an estimator, or of a network for tables.")
    ] = None,
    learner: Annotated[
        str | None, typer.Option(help="additive: sums of frozen features, so that forgetting only subtracts.")
    ] = None,
    backbone: Annotated[
        str | None, typer.Option(help="Additive: what makes features of inputs. [default: the inputs are the features]")
    ] = None,
    size: Annotated[int | None, typer.Option(help="The side to which a backbone scales pictures.")] = None,
    scale: Annotated[
        str | None, typer.Option(help="Additive: LOW,HIGH of the features, constants. [default: the backbone's]")
    ] = None,
    scale_from: Annotated[
        Path | None,
        typer.Option(help="Additive: a file of public rows, whose 1 % and 99 % quantiles become one scale a feature."),
    ] = None,
    squash: Annotated[
        bool | None, typer.Option("--squash", help="Additive: a scale for numbers of any size, which clips none.")
    ] = None,
    bits: Annotated[int | None, typer.Option(help="Additive: bits of a feature: 8, 12 or 16. [default: 8]")] = None,
    out_of_scale: Annotated[
        str | None, typer.Option(help="Additive: clip features outside of the scale, or refuse. [default: clip]")
    ] = None,
    expand: Annotated[int | None, typer.Option(help="Additive: random units before the head. [default: 0]")] = None,
    head: Annotated[
        str | None, typer.Option(help="Additive: ridge, class-means, gaussian-nb or multinomial-nb. [default: ridge]")
    ] = None,
    solve: Annotated[
        str | None, typer.Option(help="Additive: lapack, or portable for the same bits everywhere. [default: lapack]")
    ] = None,
    keep: Annotated[
        str | None, typer.Option(help="Additive: keep features, or samples: the inputs too. [default: features]")
    ] = None,
    key_file: KeyFile = None,
    key_env: KeyEnv = None,
    key_command: KeyCommand = None,
    json: o.AsJson = False,
) -> None:
    """Make a home for a device, after trying out that its learner can be trained and pruned."""
    h.need("cryptography", "home")
    device: dict[str, Any] = {
        "system": system, "shards": shards, "memory": memory, "slots": slots, "classes": classes, "seed": seed,
        "storage": storage, "retain": retain, "repair": repair, "deadline_days": deadline, "workers": workers,
        "input_shape": None if input_shape is None else tuple(h.numbers_of(input_shape, "--input-shape") or ()),
        "input_dtype": input_dtype,
    }  # fmt: skip
    torch = {
        "model": model, "shape": shape, "batch_size": batch_size, "optimizer": optimizer, "lr": lr, "mean": mean,
        "std": std, "width": width, "class_weights": class_weights, "loss": loss, "input_dtype": network_dtype,
        "init": init, "freeze": freeze, "size": size if learner is None and model is not None else None,
    }  # fmt: skip
    sklearn = {"estimator": estimator, "features": features}
    additive = {
        "backbone": backbone, "size": None if torch["size"] else size, "scale": scale, "squash": squash, "bits": bits,
        "scale_from": scale_from,
        "out_of_scale": out_of_scale, "expand": expand, "head": head, "solve": solve, "keep": keep,
    }  # fmt: skip
    key = key_of_options(key_file, key_env, key_command)
    if config is not None:
        for name, value in {**device, **torch, **sklearn, **additive, "learner": learner, "epochs": epochs}.items():
            if value is not None:
                raise InputError(f"--{name.replace('_', '-')} and --config: say it in one place")
    from cause.device.attach import create
    from cause.device.config import Config, Settings, key_source, read_config
    from cause.engine.presets import ADDITIVE_SYSTEM, RECOMMENDED

    if memory is not None and slots is not None:
        raise InputError("give either --memory or --slots, not both")
    if config is not None:
        new = read_config(config)
        if key is not None and new.key:
            raise InputError(f"{str(config)!r} names a key, and so do the options: say it in one place")
        key = key or dict(new.key) or None
    else:
        others = _without_none({**torch, **sklearn, "epochs": epochs})
        defaults: dict[str, Any] = {"system": RECOMMENDED}
        if _is_additive(learner, _without_none(additive)):
            learner_table = additive_table(_without_none(additive), others, classes)
            defaults = {"system": ADDITIVE_SYSTEM, "shards": 1}
        else:
            learner_table = _learner_table(_without_none(torch), _without_none(sklearn), classes, epochs)
        new = Config(Settings(**{**defaults, **_without_none(device)}), key or {}, learner_table)
    if key is not None:
        absolute = {
            kind: os.path.normpath(home.resolve() / value) if kind in ("file", "rotating") else value
            for kind, value in key.items()
        }
        key_source(absolute, home).read()  # fails now, before the home is made, if there is no key
    trainer, notes = _try_learner(new)
    create(home, new.settings, trainer, key, composition=new.composition)
    written = h.config_of(home)
    if json:
        print_json({"home": str(home), **written.effective(), **({"notes": notes} if notes else {})})
    else:
        print(f"made {home}")
        for note in notes:
            print(f"# note: {note}")
        print(effective(written), end="")


def effective(config: "Config") -> str:
    """Return a configuration as TOML, with a comment for each setting that is not set."""
    from dataclasses import asdict

    lines = config.text().splitlines()
    unset = [f"# {name} is not set" for name, value in asdict(config.settings).items() if value is None]
    end = lines.index("") if "" in lines else len(lines)
    return "\n".join([*lines[:end], *unset, *lines[end:]]).rstrip("\n") + "\n"


def key_of_options(key_file: Path | None, key_env: str | None, key_command: str | None) -> dict[str, Any] | None:
    """Return the table `[key]` that the options describe; None without options. Only one may be given."""
    key: dict[str, Any] = {}
    if key_file is not None:
        key["file"] = str(key_file.resolve())
    if key_env is not None:
        key["env"] = key_env
    if key_command is not None:
        try:
            key["command"] = shlex.split(key_command)
        except ValueError as error:
            raise InputError(f"--key-command: {error}: {key_command!r}") from None
    if len(key) > 1:
        raise InputError("the master key comes from one place: --key-file, --key-env or --key-command")
    return key or None


def _is_additive(learner: str | None, options: dict[str, Any]) -> bool:
    """Return whether the options describe an additive learner."""
    if learner not in (None, "additive"):
        raise InputError(f"--learner is additive, not {learner!r}: a network is --model, an estimator --estimator")
    if learner is None and options:
        raise InputError(f"--{next(iter(options)).replace('_', '-')} is for --learner additive")
    return learner is not None


def _without_none(parts: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parts.items() if value is not None}


def _learner_table(
    torch: dict[str, Any], sklearn: dict[str, Any], classes: int | None, epochs: int | None
) -> dict[str, Any]:
    """Return the table `[learner]` that the options describe."""
    shared = {"classes": 10 if classes is None else classes} | ({} if epochs is None else {"epochs": epochs})
    if "estimator" in sklearn:
        for name in torch:
            raise InputError(f"--{name.replace('_', '-')} is for a network, but --estimator was given")
        if "features" not in sklearn:
            raise InputError("--estimator needs --features: how many numbers an input has")
        h.need("sklearn", "sklearn")
        return {"kind": "sklearn", **sklearn, **shared}
    if "model" not in torch:
        ways = "--model cnn --shape 1,8,8, --estimator GaussianNB --features 64, or --learner additive"
        raise InputError(f"say what learns: {ways}")
    if "features" in sklearn and "shape" in torch:
        raise InputError("--features is the shape of a table's row: give either --features or --shape, not both")
    name = torch["model"]
    if "features" not in sklearn and "shape" not in torch and (name in ("mlp", "cnn") or ":" in name):
        ways = "--shape 1,8,8 for a picture, channels first"
        ways = ways if name == "cnn" else f"--features 64 for a table's row, or {ways}"
        raise InputError(f"--model {name} needs to know an input: {ways}")
    h.need("torch", "torch")
    if "features" in sklearn:
        torch["shape"] = [sklearn["features"]]
    elif "shape" in torch:
        torch["shape"] = h.numbers_of(torch["shape"], "--shape")
    for part in ("mean", "std", "class_weights"):
        if part in torch:
            torch[part] = _decimals(torch[part], f"--{part.replace('_', '-')}", one=part != "class_weights")
    if "freeze" in torch:
        torch["freeze"] = torch["freeze"].split(",")
    options = {name: torch.pop(name) for name in ("width", "size") if name in torch}
    if options:
        torch["options"] = options
    return {"kind": "torch", **torch, **shared}


def _decimals(text: str, option: str, *, one: bool) -> float | list[float]:
    """Parse numbers, as 0.5,0.4; with `one`, return a single number as itself."""
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{option} takes numbers, as 0.5,0.4,0.3, not {text!r}") from None
    return numbers[0] if one and len(numbers) == 1 else numbers


def _try_learner(config: "Config") -> "tuple[Learner, list[str]]":
    """Build and try the learner before the home is made; return it with notes for the user."""
    from cause.device.config import check_new_settings
    from cause.device.device import Cause
    from cause.executors.fresh_trial import try_out_afresh
    from cause.learners.described import build

    if config.learner is None:
        raise InputError("the configuration has no table [learner]")
    s: Settings = config.settings
    try:
        learner = build(config.learner)
    except (TypeError, ValueError) as error:
        raise InputError(f"not a learner: {str(error).splitlines()[0]}") from None
    check_new_settings(config)
    system = s.system if config.composition is None else config.system
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # notes are printed with the home
        device = Cause(
            learner=learner, system=system, shards=s.shards, memory=s.memory, slots=s.slots, classes=s.classes,
            seed=s.seed,
        )  # fmt: skip
    with spinner("trying the learner out"):
        try_out_afresh(device.learner)
    return learner, device.learner.notes
