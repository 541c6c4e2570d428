"""The service predicts under its own treatment of floating-point errors and warnings, as a device does."""

import warnings

import numpy as np
import pytest

from cause.learners.sklearn import SklearnLearner
from cause.service.service import Service
from cause.service.settings import ServeSettings
from tests.device.homes import learn, opened, samples
from tests.device.test_host_settings import numpy_raises, warnings_raise


@pytest.mark.parametrize("host", [numpy_raises, warnings_raise])
def test_error_modes_of_the_process_change_no_prediction(tmp_path, monkeypatch, host):
    with opened(tmp_path / "home") as device:
        learn(device, a=30, b=30)
    x = samples("c", 1, 9)[0] * 1e-170  # squares are 0
    predict, predictor = SklearnLearner._predict, SklearnLearner.predictor

    def noisy(self, estimator, inputs):
        warnings.warn("of a prediction", RuntimeWarning, stacklevel=1)
        float(np.square(np.float64(1e-200)))  # underflows
        return predict(self, estimator, inputs)

    def noisy_predictor(self, state):
        warnings.warn("of a sub-model that is restored", RuntimeWarning, stacklevel=1)
        float(np.square(np.float64(1e-200)))
        return predictor(self, state)

    service = Service(tmp_path / "home", ServeSettings(repair="never"))
    try:
        expected = service.device.votes(x)[1]
        monkeypatch.setattr(SklearnLearner, "_predict", noisy)
        monkeypatch.setattr(SklearnLearner, "predictor", noisy_predictor)
        with host():
            answered = service.predictors.predict(x)
            assert np.array_equal(service.device.votes(x)[1], expected)
        assert np.array_equal(answered.probabilities, expected)
    finally:
        service.start()
        service.close()
