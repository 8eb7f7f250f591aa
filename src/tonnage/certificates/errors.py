"""Errors of certificates that cannot be had."""


class CertificateError(Exception):
    """Certificates cannot be had; the message says why and what to do."""
