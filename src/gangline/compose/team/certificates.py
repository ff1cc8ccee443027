"""The certificate of a team's service: one that was given, or one of its own that clients pin when they log in."""

import datetime as dt
import hashlib
import ipaddress
import os
import socket
import ssl
from pathlib import Path

from gangline.errors import InvalidInputError

_YEARS = 10


def context_from(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return what a server needs to speak TLS; raises InvalidInputError for files that do not fit."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise InvalidInputError(
            f"the certificate or its key cannot be used: {error}",
            field="--cert",
            expected="PEM files that belong together",
        ) from error
    return context


def own_certificate(directory: Path, host: str) -> tuple[Path, Path]:
    """Return a certificate of our own and its key, made when first asked for and kept for the owner alone."""
    certificate, key = directory / "team.crt", directory / "team.key"
    if not (certificate.exists() and key.exists()):
        made_certificate, made_key = make_certificate(_names(host))
        for file, text in ((key, made_key), (certificate, made_certificate)):
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as written:
                written.write(text)
    return certificate, key


def fingerprint_of(certificate: Path) -> str:
    """Return the SHA-256 of a certificate, which clients pin."""
    return fingerprint_of_text(certificate.read_text())


def fingerprint_of_text(certificate: str) -> str:
    """The same for a certificate that is not in a file."""
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate[certificate.index("-----BEGIN") :])).hexdigest()


def make_certificate(names: list[str]) -> tuple[bytes, bytes]:
    """Make a certificate for these hosts, signed by itself, and its key."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError as error:
        raise InvalidInputError(
            "a certificate of its own needs the extra 'team'",
            field="--cert",
            expected="pip install 'gangline[team]', or --cert and --key",
        ) from error
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "gangline")])
    now = dt.datetime.now(dt.UTC)  # noqa: TID251  # what a certificate says of itself
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=365 * _YEARS))
        .add_extension(x509.SubjectAlternativeName([_general(each) for each in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return made.public_bytes(serialization.Encoding.PEM), secret


def _names(host: str) -> list[str]:
    return list(dict.fromkeys((host, socket.gethostname(), "localhost", "127.0.0.1")))


def _general(name: str):  # type: ignore[no-untyped-def]  # types of an extra that may not be installed
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
