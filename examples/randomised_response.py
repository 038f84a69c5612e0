"""A survey that was collected by randomised response: the respondents perturbed their answers themselves.

python randomised_response.py     needs: pip install 'postrand[regression]'

Each respondent threw a die before answering. A one meant "say yes", a six "say no", all else "tell the truth"
(forced response design). Nobody knows the true answers, not even the office; the probabilities of the die are the
matrix. All that estimates from a release estimates from such a survey too.
"""

import numpy as np
import statsmodels.api as sm

import postrand as pr
from postrand import estimate

# Rows are the true answer, columns what is said: a true "no" is said with 1/6 (the six) + 4/6 (the truth).
DIE = pr.TransitionMatrix.from_array([[5 / 6, 1 / 6], [1 / 6, 5 / 6]])


def collected(seed=5):
    """Return what was said and, apart, the truth: known here only because a real survey stands in for persons."""
    answers = sm.datasets.fair.load_pandas().data
    answers["affair"] = np.where(answers.pop("affairs") > 0, "yes", "no")
    die = np.random.default_rng(seed).integers(1, 7, len(answers))
    said = answers.assign(affair=np.select([die == 1, die == 6], ["yes", "no"], answers["affair"]))
    return said[["affair", "age", "religious"]], answers


def main():
    """Estimate shares, means and a regression from what was said, beside the truth."""
    said, truth = collected()
    mechanism = pr.Mechanism({"affair": DIE}, pr.Codebook((pr.Variable("affair", "sensitive", ("no", "yes")),)))
    print(f"what the die promised each respondent: ε = {DIE.epsilon:.3f}")
    print(f"said yes: {(said['affair'] == 'yes').mean():.3f}, true: {(truth['affair'] == 'yes').mean():.3f}")
    print(estimate.proportions(said, "affair", mechanism))
    print(estimate.mean(said, "age", mechanism, by=["affair"]))
    print("true:", truth.groupby("affair")["age"].mean().round(2).to_dict())
    print(estimate.regression("affair ~ age + religious", said, mechanism, "logistic"))
    fit = sm.Logit(truth["affair"] == "yes", sm.add_constant(truth[["age", "religious"]])).fit(disp=0)
    print("true:", fit.params.round(3).to_dict())


if __name__ == "__main__":
    main()
