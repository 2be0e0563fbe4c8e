"""Addresses of engines and brokers in a canonical form, so that equal places compare equal.

Scheme and host are in lower case, the default ports of MQTT, Kafka and Spark are written out, and of two
names of the same scheme one is used (``tcp`` for ``mqtt``, ``mqtts`` for ``ssl``).  HTTP addresses end in
a slash (RFC 3986, section 6.2.3: an empty path is ``/``), others do not.  Several hosts of a Kafka cluster
are sorted.  Host names are not resolved.
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from urllib.parse import SplitResult, urlsplit

SAME_SCHEME = {"mqtt": "tcp", "ssl": "mqtts"}
_DEFAULT_PORT = {"tcp": 1883, "mqtts": 8883, "kafka": 9092, "kafkas": 9093, "sc": 15002, "spark": 7077}
_OMITTED_PORT = {"http": 80, "https": 443}
# Names as DNS has them (RFC 1035, section 2.3.4: 63 octets a label, 255 in all), and underscores.
_LABEL = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST = re.compile(rf"{_LABEL}(\.{_LABEL})*\.?\Z")
_BRACKETED = re.compile(r"\[[^\[\]]*\](:[^:]*)?\Z")
# Java has no host, or accepts no certificate, for a name with an underscore there: Spark's master is reached
# by a java.net.URI, and a broker with TLS by jobs whose engine checks its certificate.
_STRICT_SCHEMES = frozenset({"spark", "mqtts", "kafkas"})
_CLUSTER_SCHEMES = frozenset({"kafka", "kafkas"})  # each host knows the others
_LONGEST_HOST = 253  # RFC 1035, without the final dot
_MAX_LENGTH = 2048


class BadAddress(ValueError):
    """The fault of an address, as a predicate without the address, which may contain a password.

    ``right`` describes the right form where that is not simply the form of the address.
    """

    def __init__(self, fault: str, right: str = "") -> None:
        super().__init__(fault)
        self.right = right

    def predicate(self, form: str) -> str:
        """The fault with the right form, which is ``form`` unless the fault names another."""
        return f"{self} ({self.right or f'expected {form}'})"


class NotAnAddress(BadAddress):
    """The text has not the form of an address; it may be meant as a name."""

    def __init__(self) -> None:
        super().__init__("is not an address")


@lru_cache(maxsize=4096)
def canonical(address: str) -> str:
    """The canonical form of ``SCHEME://HOST[:PORT][/PATH]``.  Raises :class:`BadAddress`."""
    parts = _split(address)
    scheme = SAME_SCHEME.get(parts.scheme, parts.scheme)
    if scheme in _CLUSTER_SCHEMES and "," in parts.netloc:
        return _cluster(scheme, parts)
    host = _host(parts)
    if scheme in _STRICT_SCHEMES and "_" in host:
        raise BadAddress(
            "has an underscore in its host name, which jobs cannot use with this scheme",
            "expected a name without one, or an IP address",
        )
    return f"{scheme}://{host}{_port(parts, scheme)}{_path(parts, scheme)}"


def _cluster(scheme: str, parts: SplitResult) -> str:
    """The canonical form of an address with several hosts, which are sorted."""
    if parts.path.rstrip("/"):
        raise BadAddress("has a path")
    hosts = [canonical(f"{scheme}://{each}").removeprefix(f"{scheme}://") for each in parts.netloc.split(",")]
    if len(set(hosts)) < len(hosts):
        raise BadAddress("names a host twice")
    return f"{scheme}://{','.join(sorted(hosts))}"


def redacted(address: str) -> str:
    """The address without the user name, password or token in it, to be shown."""
    shown = re.sub(r"//[^/\s]*@", "//***@", address)
    return re.sub(r"(?i)((?:token|password|secret|key)=)[^;&\s]*", r"\1***", shown)


def _split(address: str) -> SplitResult:
    if len(address) > _MAX_LENGTH:
        raise BadAddress(f"is longer than {_MAX_LENGTH:,} characters")
    # urlsplit would silently drop tabs and line breaks.
    if not address.isprintable() or " " in address:
        raise BadAddress("contains a space or a control character")
    try:
        parts = urlsplit(address)
    except ValueError as error:
        raise NotAnAddress from error
    if not parts.scheme or not address[len(parts.scheme) :].startswith("://"):
        raise NotAnAddress
    if "@" in parts.netloc:
        right = "expected the login as engine_login, broker_login or job_login of the site inventory"
        raise BadAddress("contains a user name or password", right)
    if "," in parts.netloc and parts.scheme not in _CLUSTER_SCHEMES:
        raise BadAddress(
            "names several hosts", "expected one; for a group, a name that resolves to its leader"
        )
    if parts.query or parts.fragment or address.endswith(("?", "#")):
        raise BadAddress("has a query or a fragment")
    return parts


def _host(parts: SplitResult) -> str:
    host = (parts.hostname or "").lower()
    if not parts.netloc.isascii():
        # Before the comparison in lower case, by which some letters of other alphabets become ASCII.
        raise BadAddress("has a host name with letters beyond ASCII", _ascii_form(parts.hostname or ""))
    if parts.netloc.startswith("["):
        if not _BRACKETED.match(parts.netloc):
            raise NotAnAddress
        try:
            return f"[{ipaddress.IPv6Address(host)}]"
        except ValueError as error:
            raise BadAddress("has no valid IPv6 address in its brackets") from error
    if not _HOST.match(host) or len(host.removesuffix(".")) > _LONGEST_HOST:
        raise BadAddress("has no valid host name" if host else "has no host")
    if re.fullmatch(r"[0-9.]+", host):
        _check_ipv4(host)
    return host.removesuffix(".")


def _ascii_form(host: str) -> str:
    try:
        return f"expected its ASCII form: {host.encode('idna').decode()}"
    except UnicodeError:
        return "expected its ASCII form, which begins with xn--"


def _check_ipv4(host: str) -> None:
    try:
        ipaddress.IPv4Address(host)
    except ValueError as error:
        raise BadAddress("has no valid IPv4 address", "expected four numbers from 0 to 255") from error


def _port(parts: SplitResult, scheme: str) -> str:
    try:
        port = parts.port
    except ValueError as error:
        raise BadAddress("has an invalid port", "expected 1 to 65535") from error
    if port == 0:
        raise BadAddress("has port 0", "expected 1 to 65535")
    if port is None:
        port = _DEFAULT_PORT.get(scheme)
    return "" if port is None or port == _OMITTED_PORT.get(scheme) else f":{port}"


def _path(parts: SplitResult, scheme: str) -> str:
    path = parts.path.rstrip("/")
    if scheme in _OMITTED_PORT:
        return f"{path}/"
    if scheme == "sc":
        return _spark_parameters(path)
    if path and scheme in _DEFAULT_PORT:
        raise BadAddress("has a path")
    return path


def _spark_parameters(path: str) -> str:
    """The parameters of a Spark Connect connection string; rejects those that SpecK sets itself."""
    pairs = [each for each in path.removeprefix("/").split(";") if each]
    if path and not path.startswith("/;"):
        raise BadAddress("has a path", "expected sc://HOST:PORT or sc://HOST:PORT/;use_ssl=true")
    for pair in pairs:
        if pair not in ("use_ssl=true", "use_ssl=false"):
            name = pair.partition("=")[0]
            raise BadAddress(f"has the parameter {name!r}", "only use_ssl is accepted")
    return "/;use_ssl=true" if "use_ssl=true" in pairs else ""
