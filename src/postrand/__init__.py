"""Post-randomisation of microdata: optimal design, exact certificates, unbiased inference."""

__all__ = ["__version__"]

__version__ = "0.1.0"
