"""Masks secrets in command lines, settings and messages before they are written anywhere.

A secret is recognized by the name of its option, variable, header or key, by its position (the password in a URL) or
by its form (token prefixes of well-known services). Anything else, such as a password as a bare argument, is not
recognized; `record_command=False` records no command line at all.

docs/how-to/share-a-run.md lists what is masked.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

MASK = "***"
_SHORTEST = 6
"""Minimum length of a secret that is replaced wherever it occurs; shorter ones occur inside other words."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

_SECRET_WORDS = frozenset(
    {
        "password", "passwords", "passwd", "passphrase", "passcode", "pwd", "secret", "secrets", "credential",
        "credentials", "bearer", "authorization", "jwt", "cookie",
    }
)  # fmt: skip
"""A name that contains one of these denotes a secret, unless its last word is in _ABOUT_SECRETS."""
_ABOUT_SECRETS = frozenset(
    {
        "arn", "backend", "column", "count", "dir", "directory", "enabled", "env", "expiry", "field", "file", "folder",
        "format", "helper", "host", "id", "ids", "len", "length", "limit", "manager", "max", "min", "mode", "name",
        "names", "path", "policy", "port", "prompt", "provider", "required", "scope", "size", "stdin", "store",
        "strength", "timeout", "ttl", "type", "types", "uri", "url", "user", "username", "var", "variable", "version",
    }
)  # fmt: skip
_SECRET_ENDINGS = (
    "password", "passwd", "passphrase", "secret", "apikey", "accesskey", "secretkey", "privatekey",
    "apitoken", "authtoken", "accesstoken", "hftoken", "hubtoken",
)  # fmt: skip
_SECRET_KEYS = frozenset(
    {
        "access", "account", "admin", "anthropic", "api", "app", "application", "auth", "azure", "client", "comet",
        "consumer", "decryption", "encryption", "google", "hf", "hmac", "license", "master", "neptune", "openai",
        "private", "secret", "service", "session", "shared", "signing", "storage", "subscription", "wandb", "webhook",
    }
)  # fmt: skip
"""Words before `key` that mark a secret, unlike the key of a table, a dictionary or attention."""
_SECRET_TOKENS = frozenset({"access", "api", "auth", "bearer", "refresh", "secret"})
"""Words before `tokens` that mark secrets."""
_TEXT_TOKENS = frozenset(
    {
        "additional", "audio", "begin", "blank", "bos", "class", "cls", "decoder", "delimiter", "end", "eos", "extra",
        "fim", "first", "forced", "image", "input", "label", "last", "mask", "max", "min", "newline", "next", "num",
        "pad", "per", "placeholder", "prefix", "prompt", "sep", "separator", "space", "special", "start", "stop",
        "suffix", "target", "text", "unk", "video", "vision", "visual", "word",
    }
)  # fmt: skip
"""Words before `token` that mark a token of text."""
_PASSES = frozenset(
    {
        "backward", "band", "first", "forward", "high", "low", "max", "min", "multi", "num", "per", "second", "single",
        "two",
    }
)  # fmt: skip
"""Words before `pass` that do not mean a password."""
_SIGNED = frozenset({"auth", "code", "credential", "key", "pass", "pw", "sid", "sig", "signature", "ticket"})
"""Names of URL parameters that hold secrets, in addition to the names above."""

_NO_SECRET = re.compile(
    r"(?:|[01]|true|false|yes|no|on|off|none|null|bearer|basic|digest|\*+|\$\{?\w+\}?)", re.IGNORECASE
)
"""Values that are never secrets, whatever their name: switches, schemes, shell variables, masked values."""

_TOKENS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|(?:https://)?hooks\.slack\.com/services/[\w/-]+"
    r"|(?:https://)?discord(?:app)?\.com/api/webhooks/[\w/-]+"
    r"|(?<![A-Za-z0-9])(?:"
    r"hf_[A-Za-z0-9]{16,}|api_org_[A-Za-z0-9]{16,}"  # Hugging Face
    r"|sk-(?=[\w-]{0,80}\d)[\w-]{16,}"  # OpenAI, Anthropic and others
    r"|(?:gsk_|r8_)[A-Za-z0-9]{20,}|(?:nvapi|pplx|xai)-[\w-]{20,}"  # Groq, Replicate, NVIDIA, Perplexity, xAI
    r"|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}"  # GitHub
    r"|gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|soat)-[\w-]{16,}"  # GitLab
    r"|(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}"  # AWS
    r"|AIza[\w-]{30,}|ya29\.[\w-]{16,}|GOCSPX-[\w-]{16,}"  # Google
    r"|xox[abeoprs]-[\w-]{10,}|xapp-[\w-]{10,}"  # Slack
    r"|(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,}"  # Stripe
    r"|SG\.[\w-]{16,}\.[\w-]{16,}"  # SendGrid
    r"|dapi[a-f0-9]{32}|dop_v1_[a-f0-9]{32,}|dckr_pat_[\w-]{16,}|hvs\.[\w-]{16,}"  # Databricks, ..., Vault
    r"|npm_[A-Za-z0-9]{30,}|pypi-AgE[\w-]{16,}"
    r"|eyJ[\w-]{10,}(?:\.[\w-]+){1,2}"  # JSON Web Tokens
    r")",
    re.DOTALL,
)
_PASSWORD_IN_URL = re.compile(r"(://[^\s/?#:@]{0,200}:)[^\s/?#]{1,500}(?=@)|(://)(?=\w*\d)\w{20,500}(?=@)")
_PARAMETER = re.compile(r"([?&;])([\w.-]{1,80})=([^\s&;#\"']+)")
_AUTHORIZATION = re.compile(
    r"(authorization\\*[\"']?\s*[:=]\s*\\*[\"']?)((?:bearer|basic|digest|token|apikey)\s+)?[^\s\"'\\]+"
    r"|(\bbearer\s+)(?=\S{0,200}\d)[\w.~+/-]{8,}=*",
    re.IGNORECASE,
)
_USER = re.compile(r"((?<!\S)(?:-u|--user|--proxy-user)[\s=]+[^\s:/]+:)\S+")
_NAMED = re.compile(
    r"""(?<![\w.])(?:(?P<dash>-{1,2})|(?<!-))(?P<name>[A-Za-z_][\w.-]{0,80})"""
    r"""(?:\\*["'])?(?:\s*[:=]\s*|(?P<apart>\s+|,\s*(?=["']))(?!-))"""
)
"""The name of a value: `--name value`, `name=value`, `"name": "value"`, `['--name', 'value']`."""
_OPTION_NAME = re.compile(r"[-+~]{0,2}[A-Za-z_][\w.-]*")
_VALUE = re.compile(r"""(\\*["'])(?:(?!\1)(?:\\.|.))*(?:\1|\Z)|[^\s"',;&)}\]\\]+""", re.DOTALL)
_SUSPICIOUS = re.compile(
    r"://|key|tok|secr|pass|pwd|auth|bearer|cred|cook|jwt|eyj|-u|--user|hook|private|hf_|api_org_|sk-|gsk_|r8_|nvapi|pplx"
    r"|xai-|ghp_|gho_|ghu_|ghs_|ghr_|github_|glpat|gldt|glrt|glcbt|glptt|glft|glimt|glagent|glsoat|akia|asia|abia|acca"
    r"|aiza|ya29|gocspx|xox|xapp|sk_|rk_|pk_|sg\.|dapi|dop_|dckr|hvs\.|npm_|pypi-"
)
"""A lower-case fragment of every pattern above: a quick test that nearly all texts fail."""


def mask_text(text: str) -> str:
    """Return a text with its secrets masked."""
    if not _SUSPICIOUS.search(text.lower()):
        return text
    text = _TOKENS.sub(MASK, text)
    text = _PASSWORD_IN_URL.sub(lambda match: f"{match[1] or match[2]}{MASK}", text)
    text = _PARAMETER.sub(_masked_parameter, text)
    text = _AUTHORIZATION.sub(lambda match: f"{match[1] or match[3]}{match[2] or ''}{MASK}", text)
    text = _USER.sub(rf"\1{MASK}", text)
    return "".join(_masked_parts(text))


def mask_message(text: str) -> str:
    """Return a message with its secrets masked, including those from this process's command line and environment."""
    for secret in sorted(_given_secrets(), key=len, reverse=True):
        text = text.replace(secret, MASK)
    return mask_text(text)


def mask_command(words: Sequence[str]) -> tuple[str, ...]:
    """Return a command line with its secrets masked."""
    return tuple(_masked_words(words))


def mask_values(value: Any) -> Any:
    """Return plain data with secrets masked: values of secret names, and secrets within texts."""
    if isinstance(value, dict):
        return {name: _masked_item(name, item) for name, item in value.items()}
    if isinstance(value, list):
        return [mask_values(item) for item in value]
    return mask_text(value) if isinstance(value, str) else value


@functools.lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Return whether the value of an option, variable or key is a secret: `hf-token`, `dbPassword`; not `pad_token`."""
    words = [word.lower() for word in _WORD.findall(name) if not word.isdigit()]
    if not words or (words == ["pwd"] and name.isupper()):  # the shell variable PWD is the working directory
        return False
    *kinds, last = words
    rule = _BY_LAST_WORD.get(last)
    if rule is not None:
        return rule(frozenset(kinds))
    if last in _ABOUT_SECRETS:
        return False
    return last.endswith(_SECRET_ENDINGS) or not _SECRET_WORDS.isdisjoint(words)


_BY_LAST_WORD: dict[str, Callable[[frozenset[str]], bool]] = {
    "token": _TEXT_TOKENS.isdisjoint,
    "tokens": lambda kinds: not _SECRET_TOKENS.isdisjoint(kinds),
    "key": lambda kinds: not _SECRET_KEYS.isdisjoint(kinds),
    "keys": lambda kinds: not _SECRET_KEYS.isdisjoint(kinds),
    "pass": _PASSES.isdisjoint,
    "auth": lambda _: True,
}


def _given_secrets() -> set[str]:
    """Return the secrets in the command line and in the environment of this process."""
    secrets = {value for name, value in os.environ.items() if is_secret_name(name) and _masked(value) == MASK}
    for word, masked in zip(sys.argv, mask_command(sys.argv), strict=True):
        if word != masked:
            pattern = "(.+?)".join(map(re.escape, masked.split(MASK)))
            match = re.fullmatch(pattern, word, re.DOTALL)
            secrets.update(match.groups() if match else ())
    return {secret for secret in secrets if len(secret) >= _SHORTEST}


def _masked_words(words: Sequence[str]) -> Iterator[str]:
    option = ""
    for word in words:
        if _is_option(word):
            option = word if "=" not in word else ""
        elif is_secret_name(option):
            yield _masked(word)
            option = option if option.endswith("s") else ""  # a plural option takes several values
            continue
        elif option in ("-u", "--user", "--proxy-user"):
            yield _USER.sub(rf"\1{MASK}", f"{option} {word}")[len(option) + 1 :]
            option = ""
            continue
        else:
            option = ""
        name, equals, value = word.partition("=")
        named = equals and _OPTION_NAME.fullmatch(name) and is_secret_name(name)
        yield f"{name}={_masked(value)}" if named else mask_text(word)


def _is_option(word: str) -> bool:
    """Return whether a word is an option and not a value that begins with a dash."""
    return word.startswith("--") or (word.startswith("-") and (len(word) == 2 or word[1:].replace("-", "").isalpha()))


def _masked(value: str) -> str:
    return value if _NO_SECRET.fullmatch(value.strip("\\\"'")) else MASK


def _masked_item(name: str, value: Any) -> Any:
    if value is None or isinstance(value, bool) or not is_secret_name(name):
        return mask_values(value)
    return _masked(value) if isinstance(value, str) else MASK


def _masked_parameter(match: re.Match[str]) -> str:
    before, name, value = match.groups()
    words = {word.lower() for word in _WORD.findall(name)}
    return f"{before}{name}={_masked(value)}" if is_secret_name(name) or words & _SIGNED else match[0]


def _masked_parts(text: str) -> Iterator[str]:
    """Yield a text in parts, with the values of secret names masked."""
    end = 0
    for named in _NAMED.finditer(text):
        if named["apart"] and not named["dash"]:
            continue
        value = _VALUE.match(text, named.end()) if is_secret_name(named["name"]) else None
        if value is not None and named.start() >= end and _masked(value[0]) == MASK:
            yield f"{text[end : value.start()]}{value[1] or ''}{MASK}{value[1] or ''}"
            end = value.end()
    yield text[end:]
