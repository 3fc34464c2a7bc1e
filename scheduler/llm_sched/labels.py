"""The provider label of an endpoint, the same whoever reads it: an engine off its `api_base`, a transport off a request.

The law: `api.openai.com` is `openai`; every other host stands for itself, in lower case, with its port unless that is the
scheme's own.
"""

from __future__ import annotations

from urllib.parse import urlsplit

_OPENAI_HOST = "api.openai.com"
_OWN_PORT = {"http": ":80", "https": ":443"}


def provider_label(url: str) -> str:
    """Label of the provider at `url`: `https://api.openai.com/v1` is `openai`, `http://localhost:11434/v1` `localhost:11434`.

    Args:
        url: the base URL of an API, or any URL below it; what stands before `@` in it is no part of the label.

    Raises:
        ValueError: it has no host.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:  # half an IPv6 address, or a port that is no number
        raise ValueError(f"{url!r} is not a URL: {error}") from None
    host = parts.netloc.rpartition("@")[2].lower().removesuffix(_OWN_PORT.get(parts.scheme, ":"))
    if not parts.hostname:
        raise ValueError(f"{url!r} is not a URL with a host")
    return "openai" if host == _OPENAI_HOST else host
