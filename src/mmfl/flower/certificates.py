"""Certificates and keys of a federation: an authority, the server's certificate, nodes' keys.

They are made on this machine, for a test or a closed network. A node proves who it is with its own
key (ECDSA on P-384, in OpenSSH's format), whose public half is registered with the SuperLink.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate

__all__ = ["make_certificates", "make_node_key"]

_DAYS = 365


def make_certificates(folder: Path, hosts: Sequence[str]) -> None:
    """Write ca.crt, server.pem and server.key; the server may be called by any of these hosts.

    The authority's key is not kept: nothing else can be signed with it.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    authority, server = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    subject = _name("mmfl federation")
    now = datetime.datetime.now(datetime.UTC)

    def sign(name: str, key: EllipticCurvePrivateKey, *, root: bool) -> Certificate:
        made = (
            x509.CertificateBuilder()
            .subject_name(_name(name))
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + datetime.timedelta(days=_DAYS))
            .add_extension(x509.BasicConstraints(root, 0 if root else None), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()),
                critical=False,
            )
            .add_extension(_usage(root=root), critical=True)
        )
        if not root:
            names = x509.SubjectAlternativeName([_host(host) for host in hosts])
            made = made.add_extension(names, critical=False)
        return made.sign(authority, hashes.SHA384())

    _write(folder / "ca.crt", _pem(sign("mmfl federation", authority, root=True)))
    _write(folder / "server.pem", _pem(sign(hosts[0], server, root=False)))
    _write(folder / "server.key", _private(server, openssh=False))


def make_node_key(path: Path) -> None:
    """Write a node's private key, and its public half with the suffix .pub."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP384R1())
    _write(path, _private(key, openssh=True))
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    _write(path.with_name(path.name + ".pub"), public + b"\n")


def _name(name: str):  # type: ignore[no-untyped-def]
    from cryptography import x509

    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _host(host: str):  # type: ignore[no-untyped-def]
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, root: bool):  # type: ignore[no-untyped-def]
    from cryptography import x509

    no = dict.fromkeys(
        (
            *("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
            *("encipher_only", "decipher_only"),
        ),
        False,
    )
    return x509.KeyUsage(digital_signature=True, key_cert_sign=root, crl_sign=root, **no)


def _pem(certificate: Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _private(key: EllipticCurvePrivateKey, *, openssh: bool) -> bytes:
    from cryptography.hazmat.primitives import serialization as form

    kind = form.PrivateFormat.OpenSSH if openssh else form.PrivateFormat.PKCS8
    return key.private_bytes(form.Encoding.PEM, kind, form.NoEncryption())


def _write(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read; one that exists is not replaced."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(content)
