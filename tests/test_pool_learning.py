"""Completed copies and predictors of scikit-learn: averaged predictions, importances, cross-validated scores."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.tree import DecisionTreeRegressor

from postrand.errors import UsageError
from postrand.estimate import cross_validated, ensemble, pool
from tests.test_pool import FRAMES


def features(frame):
    return np.column_stack([frame.x, frame.g])


def test_predictions_of_regressors_are_averaged():
    found = ensemble(lambda f: LinearRegression().fit(features(f), f.y), FRAMES)
    fits = [LinearRegression().fit(features(f), f.y) for f in FRAMES]
    asked = features(FRAMES[0])[:5]
    np.testing.assert_allclose(found.predict(asked), np.mean([fit.predict(asked) for fit in fits], axis=0))
    coefficients, intercept = np.mean([fit.coef_ for fit in fits], axis=0), np.mean([fit.intercept_ for fit in fits])
    np.testing.assert_allclose(found.predict(asked), asked @ coefficients + intercept)


def test_probabilities_of_classifiers_are_averaged():
    found = ensemble(lambda f: LogisticRegression().fit(features(f), f.kind), FRAMES)
    asked = features(FRAMES[0])[:30]
    each = [LogisticRegression().fit(features(f), f.kind).predict_proba(asked) for f in FRAMES]
    np.testing.assert_allclose(found.predict_proba(asked), np.mean(each, axis=0))
    assert list(found.classes_) == ["a", "b", "c"]
    assert list(found.predict(asked)) == [found.classes_[row.argmax()] for row in np.mean(each, axis=0)]


def test_classifiers_that_know_other_classes_are_refused():
    with pytest.raises(UsageError, match="different classes"):
        ensemble(lambda classes: SimpleNamespace(classes_=classes), [["a", "b"], ["a"]])
    with pytest.raises(UsageError, match="at least two copies"):
        ensemble(lambda classes: SimpleNamespace(), [["a", "b"]])


def test_coefficients_and_importances_get_a_variance_by_drawing():
    def coefficients(frame):
        return dict(zip(("x", "g"), LinearRegression().fit(features(frame), frame.y).coef_, strict=True))

    found = pool(coefficients, FRAMES[:3], variance="bootstrap", replicates=60)
    design = np.column_stack([np.ones(120), features(FRAMES[0])])
    noise = [f.y - design @ np.linalg.lstsq(design, f.y, rcond=None)[0] for f in FRAMES[:3]]
    wanted = np.mean([np.linalg.inv(design.T @ design).diagonal()[1:] * (e @ e) / 117 for e in noise], axis=0)
    np.testing.assert_allclose(found.rules.within, wanted, rtol=0.3)

    def importances(frame):
        return DecisionTreeRegressor(max_depth=2, random_state=0).fit(features(frame), frame.y).feature_importances_

    grown = pool(importances, FRAMES[:3], variance="bootstrap", replicates=20)
    assert grown.value.sum() == pytest.approx(1)
    assert (grown.standard_error > 0).all()


def test_a_cross_validated_score_is_pooled_with_its_variance():
    scores = [cross_val_score(LinearRegression(), features(f), f.y, cv=5) for f in FRAMES]
    mean, variance = cross_validated(scores[0])
    assert mean == scores[0].mean()
    assert variance == pytest.approx((1 / 5 + 1 / 4) * scores[0].var(ddof=1))
    found = pool(cross_validated, scores)
    assert found.value[0] == pytest.approx(np.mean(scores))
    assert found.rules.within[0] == pytest.approx(np.mean([cross_validated(s)[1] for s in scores]))
    with pytest.raises(UsageError, match="one score"):
        cross_validated([0.8])
