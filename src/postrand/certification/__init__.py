"""The certificate: what the exact law guarantees, checked without the designer."""

from postrand.certification.certificate import Certificate, Claim, certify

__all__ = ["Certificate", "Claim", "certify"]
