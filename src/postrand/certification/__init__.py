"""The certificate: what the exact matrices guarantee, checked without the designer."""

from postrand.certification.certificate import Certificate, Claim, certify

__all__ = ["Certificate", "Claim", "certify"]
