"""The secrets by which a job's pods authenticate streams that cross the network.

Every job has a key of its own, derived from one secret of the appliance, so a restarted management
derives the same one. Encrypted streams also need an identity: a key and its self-signed
certificate, which both ends of a connection hold.
"""

import datetime as dt
import hashlib
import hmac
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from appliance.core.clock import Clock
from appliance.core.ids import JobId
from appliance.files.kept_files import damaged, read_own, replace_file
from appliance.management.access.certificates import is_pair

_VALID_DAYS = 825
_RENEW_DAYS = 30
_COST = "nodes need new join tokens, and jobs that run on several nodes fail"


def job_key(secret: bytes, job: JobId) -> str:
    """Return the key of one job, as hexadecimal digits."""
    return hmac.new(secret, job.encode(), hashlib.sha256).hexdigest()


def ensure_identity(path: Path, clock: Clock) -> Path:
    """Return the file with the identity; make a new one if there is none or it runs out soon.

    Raises:
        ClusterError: It is not what was written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists() or _remaining(path, clock) < dt.timedelta(days=_RENEW_DAYS):
        replace_file(path, _identity(clock))
    return path


def _remaining(path: Path, clock: Clock) -> dt.timedelta:
    what, hint = "a certificate and its key", f"Restore it from a backup, or remove it: {_COST}."
    text = read_own(path, what=what, hint=hint)
    if not is_pair(text, text):
        raise damaged(path, what, "it does not hold both, or they do not belong together", hint)
    return x509.load_pem_x509_certificate(text).not_valid_after_utc - clock.now()


def _identity(clock: Clock) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "wafer appliance streams")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(clock.now() - dt.timedelta(hours=1))
        .not_valid_after(clock.now() + dt.timedelta(days=_VALID_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    text = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return text + certificate.public_bytes(pem)
