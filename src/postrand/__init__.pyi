from . import estimate, risk
from .certificate import Certificate, Claim, certify
from .codebook import Codebook, Variable
from .design import LeastLoss, MutualInformation, Prior, UniformOffDiagonal, design
from .engines.frame import perturb
from .errors import PostrandError
from .matrix import TransitionMatrix, randomised_response
from .mechanism import Block, Mechanism
from .objectives import KullbackLeiblerLoss, L2Loss
from .plan import Plan, load_plan
from .privacy import Bistochastic, DifferentialPrivacy, SpontaneousRecognition
from .randomness import ReleaseKey
from .release import Release, read_release, verify
from .run import run

__version__: str

__all__ = [
    "Bistochastic",
    "Block",
    "Certificate",
    "Claim",
    "Codebook",
    "DifferentialPrivacy",
    "KullbackLeiblerLoss",
    "L2Loss",
    "LeastLoss",
    "Mechanism",
    "MutualInformation",
    "Plan",
    "PostrandError",
    "Prior",
    "Release",
    "ReleaseKey",
    "SpontaneousRecognition",
    "TransitionMatrix",
    "UniformOffDiagonal",
    "Variable",
    "certify",
    "design",
    "estimate",
    "load_plan",
    "perturb",
    "randomised_response",
    "read_release",
    "risk",
    "run",
    "verify",
]
