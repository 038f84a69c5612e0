from . import estimate, risk
from .alternatives.frames import microaggregate, suppress
from .certification.certificate import Certificate, Claim, certify
from .codebook import Codebook, Variable
from .data.recoded import recode
from .designers import (
    BistochasticMatrix,
    Circulant,
    CustomObjective,
    EstimatorVariance,
    ExpectedChanges,
    General,
    LeastLoss,
    MutualInformation,
    Prior,
    SplitDesign,
    Symmetric,
    TablePrior,
    UniformOffDiagonal,
    compare,
    design,
    least_loss,
    load_design,
    split_design,
)
from .designers.bistochastic import round_bistochastic
from .engines.content import Content
from .engines.frame import content_of, perturb
from .errors import PostrandError
from .mechanism import Block, Mechanism, SharedDrawsWarning, Split, Subset, Units
from .mechanism.matrix import TransitionMatrix, load_matrix, randomised_response
from .mechanism.mechanism import load_mechanism
from .objectives import KullbackLeiblerLoss, L2Loss, WholeRecord
from .plan import Plan, load_plan
from .plan.infer import load_codebook
from .privacy import Bistochastic, DifferentialPrivacy, SpontaneousRecognition
from .recoding import Recode
from .release import Release, read_release, verify
from .release.completed import complete
from .risk import tune
from .support.randomness import ReleaseKey, load_key
from .workflow.alternative_files import recheck
from .workflow.pipeline import run
from .workflow.unperturbed import findings

__version__: str

__all__ = [
    "Bistochastic",
    "BistochasticMatrix",
    "Block",
    "Certificate",
    "Circulant",
    "Claim",
    "Codebook",
    "Content",
    "CustomObjective",
    "DifferentialPrivacy",
    "EstimatorVariance",
    "ExpectedChanges",
    "General",
    "KullbackLeiblerLoss",
    "L2Loss",
    "LeastLoss",
    "Mechanism",
    "MutualInformation",
    "Plan",
    "PostrandError",
    "Prior",
    "Recode",
    "Release",
    "ReleaseKey",
    "SharedDrawsWarning",
    "Split",
    "SplitDesign",
    "SpontaneousRecognition",
    "Subset",
    "Symmetric",
    "TablePrior",
    "TransitionMatrix",
    "UniformOffDiagonal",
    "Units",
    "Variable",
    "WholeRecord",
    "certify",
    "compare",
    "complete",
    "content_of",
    "design",
    "estimate",
    "findings",
    "least_loss",
    "load_codebook",
    "load_design",
    "load_key",
    "load_matrix",
    "load_mechanism",
    "load_plan",
    "microaggregate",
    "perturb",
    "randomised_response",
    "read_release",
    "recheck",
    "recode",
    "risk",
    "round_bistochastic",
    "run",
    "split_design",
    "suppress",
    "tune",
    "verify",
]
