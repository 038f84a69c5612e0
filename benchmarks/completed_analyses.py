"""Analyses for which postrand has no estimator, as an analyst would write them for an ordinary file.

Each takes a pandas frame and returns estimates and their variances, two arrays in a fixed order. None of them knows
that the file was perturbed or completed. Where the software states no variance, it is that of a delete-a-group
jackknife with 20 groups.
"""

import itertools

import numpy as np
import pandas as pd
import statsmodels.api as sm
from statsmodels.duration.hazard_regression import PHReg
from statsmodels.duration.survfunc import SurvfuncRight
from statsmodels.miscmodels.ordinal_model import OrderedModel
from statsmodels.multivariate.factor import Factor

GROUPS = 20


def jackknifed(frame, statistic):
    """Return a statistic and its delete-a-group jackknife variance."""
    part = np.arange(len(frame)) % GROUPS
    value = np.asarray(statistic(frame))
    left = np.array([statistic(frame[part != k]) for k in range(GROUPS)])
    return value, (GROUPS - 1) / GROUPS * ((left - left.mean(axis=0)) ** 2).sum(axis=0)


def by_category(frame, measure):
    """Return a measure (value, variance) of the records of every category of the four variables."""
    found = []
    for name in ("group", "level", "answer", "third"):
        for code in sorted(frame[name].unique()):
            found.append(measure(frame[frame[name] == code]))
    return tuple(np.concatenate([np.atleast_1d(one) for one in each]) for each in zip(*found, strict=True))


def design(frame, *names, interaction=False):
    columns = {name: frame[name].astype(float) for name in names}
    if interaction:
        columns["both"] = columns[names[0]] * columns[names[1]]
    return sm.add_constant(pd.DataFrame(columns))


def mixed_model(frame):
    """Random district effects, linear model of score: fixed effects."""
    found = sm.MixedLM(frame["score"], design(frame, "group", "level", "answer"), frame["district"]).fit()
    return found.fe_params.to_numpy()[1:], np.diag(found.cov_params())[1:4]


def cox(frame):
    """Cox regression of the months until the end."""
    found = PHReg(frame["months"], frame[["group", "level", "answer"]], status=frame["ended"], ties="breslow").fit()
    return found.params, np.diag(found.cov_params())


def kaplan_meier(frame):
    """Share still there after 6, 12 and 24 months, in every category."""

    def after(part):
        curve = SurvfuncRight(part["months"], part["ended"])
        at = np.searchsorted(curve.surv_times, (6.0, 12.0, 24.0), side="right") - 1
        return curve.surv_prob[at], curve.surv_prob_se[at] ** 2

    return by_category(frame, after)


def quantile_regression(frame):
    """Median regression of log income."""
    found = sm.QuantReg(np.log(frame["income"]), design(frame, "group", "level")).fit(q=0.5)
    return found.params.to_numpy(), np.diag(found.cov_params())


def propensity(frame):
    """Effect of group on score, weighted by the inverse propensity (stabilised, sandwich variance)."""
    x = design(frame, "level", "answer", "third")
    chance = sm.GLM(frame["group"], x, family=sm.families.Binomial()).fit().fittedvalues.to_numpy()
    treated = frame["group"].to_numpy()
    weight = treated / chance + (1 - treated) / (1 - chance)
    found = sm.WLS(frame["score"], sm.add_constant(treated.astype(float)), weights=weight).fit(cov_type="HC0")
    return found.params.to_numpy()[1:], np.diag(found.cov_params())[1:]


def tree(frame):
    """Regression tree of score, two splits deep: what it predicts for eight persons."""
    from sklearn.tree import DecisionTreeRegressor

    names = ["group", "level", "answer", "third"]
    grown = DecisionTreeRegressor(max_depth=2, random_state=0).fit(frame[names].to_numpy(), frame["score"])
    leaf = grown.apply(frame[names].to_numpy())
    asked = np.array([(g, level, a, 0) for g in (0, 1) for level in (0, 3) for a in (0, 1)])
    where = grown.apply(asked)
    spread = {k: frame["score"][leaf == k].var() / (leaf == k).sum() for k in set(where)}
    return grown.predict(asked), np.array([spread[k] for k in where])


def ordinal_logit(frame):
    """Ordered logit of rating: slopes and thresholds."""
    columns = frame[["group", "level", "answer"]].astype(float)
    found = OrderedModel(frame["rating"], columns, distr="logit").fit(method="bfgs", disp=False)
    return found.params.to_numpy()[:3], np.diag(found.cov_params())[:3]


def factor_analysis(frame):
    """One factor of five variables, principal axis: the share of each that it explains."""
    items = np.column_stack([frame[["level", "score", "rating", "months"]], np.log(frame["income"])])

    def communalities(part):
        return Factor(corr=np.corrcoef(part.T), n_factor=1, nobs=len(part)).fit(maxiter=100).communality

    return jackknifed(items, communalities)


def gini(frame):
    """Gini coefficient of income in every category."""

    def coefficient(part):
        income = np.sort(part["income"].to_numpy())
        n = len(income)
        return (2 * np.arange(1, n + 1) - n - 1) @ income / (n * income.sum())

    def measure(part):
        return jackknifed(part, coefficient)

    return by_category(frame, measure)


def small_areas(frame):
    """Mean of a variable in each district by Fay and Herriot: shrunk towards the mean of the districts."""
    means, errors = [], []
    asked = [frame.loc[frame["group"] == 1, "score"], frame.loc[frame["answer"] == 1, "score"]]
    for values in (*asked, (frame["level"] == 3).astype(float), (frame["third"] == 1).astype(float)):
        table = values.groupby(frame["district"]).agg(["mean", "var", "size"])
        own = table["var"] / table["size"]
        between = max(table["mean"].var() - own.mean(), 0.0)
        trust = between / (between + own)
        means.append(table["mean"].mean() + trust * (table["mean"] - table["mean"].mean()))
        errors.append(trust * own + (1 - trust) ** 2 * table["mean"].var() / len(table))
    return np.concatenate(means), np.concatenate(errors)


def logit_interaction(frame):
    """Logistic regression of the answer with an interaction."""
    x = design(frame, "group", "third", interaction=True)
    found = sm.GLM(frame["answer"], x, family=sm.families.Binomial()).fit()
    return found.params.to_numpy(), np.diag(found.cov_params())


def gamma_regression(frame):
    """Gamma regression of income with a log link, robust variances."""
    family = sm.families.Gamma(sm.families.links.Log())
    found = sm.GLM(frame["income"], design(frame, "group", "level", interaction=True), family=family).fit(
        cov_type="HC0"
    )
    return found.params.to_numpy(), np.diag(found.cov_params())


def rank_correlation(frame):
    """Spearman's correlations of the ordered and numerical variables, on Fisher's scale."""
    ranks = frame[["level", "score", "income", "rating", "answer", "group"]].rank().to_numpy()
    r = np.corrcoef(ranks.T)[np.triu_indices(ranks.shape[1], 1)]
    return np.arctanh(r), np.full(r.size, 1.06 / (len(frame) - 3))


ANALYSES = {
    "mixed model": mixed_model,
    "Cox regression": cox,
    "Kaplan-Meier": kaplan_meier,
    "median regression": quantile_regression,
    "propensity weights": propensity,
    "tree": tree,
    "ordinal logit": ordinal_logit,
    "factor analysis": factor_analysis,
    "Gini": gini,
    "small areas": small_areas,
    "logit, interaction": logit_interaction,
    "gamma regression": gamma_regression,
    "rank correlation": rank_correlation,
}


def cells(frame, names, sizes):
    """Return the shares of all two-way cells of these variables, and their variances."""
    found = []
    for a, b in itertools.combinations(names, 2):
        codes = frame[a].to_numpy() * sizes[b] + frame[b].to_numpy()
        found.append(np.bincount(codes, minlength=sizes[a] * sizes[b]) / len(frame))
    p = np.concatenate(found)
    return p, p * (1 - p) / len(frame)
