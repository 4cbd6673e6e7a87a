"""Tokens of services, by the forms that their vendors publish, and private keys.

A form is a beginning, an alphabet and a length. Lengths are lower bounds where vendors have changed
them, and whatever looks like a word or a stand-in (``hf_xxxxxxxx``) is no token.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache

from dph_corpus.transform.spans import PrivateSpan

_HEX_32, _HEX_40, _HEX_64 = (rf"[0-9a-f]{{{n}}}(?!\w)" for n in (32, 40, 64))
TOKENS: Mapping[str, tuple[str, str]] = {
    # vendor: (texts one of which every token has, pattern; a group is the secret)
    "Airtable": ("pat", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    "Alibaba": ("LTAI", r"LTAI[A-Za-z0-9]{20}(?!\w)"),
    "Anthropic": ("sk-ant-", r"sk-ant-[a-z]+\d\d-[\w-]{40,}"),
    "Artifactory": ("AKCp cmVmd", r"(?:AKCp[A-Za-z0-9]{69}|cmVmd[A-Za-z0-9]{59})(?!\w)"),
    "Atlassian": ("ATATT3 ATCTT3 ATBB", r"(?:AT[AC]TT3[\w=-]{60,}|ATBB[A-Za-z0-9]{32}(?!\w))"),
    "AWS": ("AKIA ASIA ABIA ACCA A3T", r"(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[A-Z0-9]{16}(?!\w)"),
    "AWS Bedrock": ("ABSK bedrock-api-key-", r"(?:ABSK|bedrock-api-key-)[A-Za-z0-9+/]{80,}=*"),
    "Azure": ("Key=", r"(?:Account|SharedAccess)Key=([A-Za-z0-9+/]{40,}={0,2})"),
    "Azure AD": ("Q~", r"[\w~.]{3}\dQ~[\w~.-]{31,34}(?!\w)"),
    "Cerebras": ("csk-", r"csk-[a-z0-9]{48}(?!\w)"),
    "Cloudflare": (
        "cfut_ cfat_ cfk_ v1.0-",
        r"(?:cf(?:[ua]t|k)_\w{40,}|v1\.0-[0-9a-f]{24}-\w{146})",
    ),
    "Databricks": ("dapi", rf"dapi{_HEX_32}(?:-\d)?"),
    "DigitalOcean": ("_v1_", rf"do[opr]_v1_{_HEX_64}"),
    "Discord": (".", r"[MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27,40}(?!\w)"),
    "Discord, Teams webhooks": (
        "/webhooks/ /webhookb2/",
        r"https://(?:\w+\.)?(?:discord(?:app)?\.com/api|\w+\.office\.com)/webhook(?:s|b2)/[\w@/-]{60,}",
    ),
    "Docker Hub": ("dckr_", r"dckr_[po]at_[\w-]{27,}"),
    "Doppler": ("dp.", r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[\w-]{1,40}\.)?[A-Za-z0-9]{40,44}"),
    "Dropbox": ("sl.", r"sl\.(?:u\.)?[\w=-]{130,}"),
    "ElevenLabs": ("sk_", r"sk_[0-9a-f]{48}(?!\w)"),
    "Facebook": ("EAA", r"EAA[A-Z][A-Za-z0-9]{100,}"),
    "Figma": ("figd_", r"figd_[\w-]{38,}"),
    "Fly": ("fo1_ fm1", r"(?:fo1_[\w-]{43}|fm1[ar]_[A-Za-z0-9+/]{100,}=*)"),
    "GitHub": ("gh", r"gh[pousr]_[A-Za-z0-9_]{36,255}(?:\.[\w-]{20,}){0,2}"),
    "GitHub, fine-grained": ("github_pat_", r"github_pat_\w{40,255}"),
    "GitLab": (
        "gl",
        r"gl(?:pat|oas|dt|rtr?|cbt|ptt|ft|imt|agent|wt|soat|ffct)-[\w-]{20,300}"
        r"(?:\.[0-9a-z]{2}\.?[0-9a-z]{7})?(?!\w)",
    ),
    "GitLab runner": ("GR1348941", r"GR1348941[\w-]{20,50}"),
    "Google": ("AIza", r"AIza[\w-]{35}(?![\w-])"),
    "Google, bound": ("AQ.A", r"AQ\.A[\w-]{40,}"),
    "Google OAuth": (
        "GOCSPX- ya29. 1//0",
        r"(?:GOCSPX-[\w-]{24,}|ya29\.[\w-]{20,}|1//0[\w-]{40,})",
    ),
    "Grafana": ("glsa_ glc_", r"(?:glsa_\w{32}_[0-9a-fA-F]{8}|glc_[A-Za-z0-9+/]{32,}=*)"),
    "Groq": ("gsk_", r"gsk_[A-Za-z0-9]{40,}"),
    "Heroku": ("HRKU-", r"HRKU-[\w-]{36,}"),
    "Hugging Face": ("hf_ api_org_", r"(?:hf|api_org)_[A-Za-z0-9]{30,40}(?!\w)"),
    "JSON Web Token": ("eyJ", r"eyJ[\w=-]{8,1000}\.[\w=-]{2,}(?:\.[\w+/=-]+)*"),
    "Kaggle": ("KGAT_", rf"KGAT_{_HEX_32}"),
    "LangSmith": ("lsv2_", r"lsv2_[ps][tk]_[0-9a-f]{32}_[0-9a-f]{10}"),
    "Linear": ("lin_", r"lin_(?:api|oauth)_[A-Za-z0-9]{32,64}"),
    "Mailchimp": ("-us", r"[0-9a-f]{32}-us\d\d?(?!\w)"),
    "Mailgun": ("key-", rf"key-{_HEX_32}"),
    "Mapbox": ("k.eyJ", r"[st]k\.eyJ[\w-]{40,400}\.[\w-]{20,}"),
    "Netlify": ("nf", r"nf[pcoub]_[A-Za-z0-9]{36,40}(?!\w)"),
    "New Relic": ("NRAK-", r"NRAK-[A-Z0-9]{27}"),
    "Notion": ("ntn_ secret_", r"(?:ntn_[A-Za-z0-9]{40,50}|secret_[A-Za-z0-9]{43})(?!\w)"),
    "npm": ("npm_", r"npm_[A-Za-z0-9]{30,40}(?!\w)"),
    "npm, before": ("_authToken=", r"_authToken=\s*([0-9a-fA-F-]{36})(?!\w)"),
    "NuGet": ("oy2", r"oy2[a-z0-9]{43}(?!\w)"),
    "NVIDIA": ("nvapi-", r"nvapi-[\w-]{60,}"),
    "OpenAI": ("sk-", r"sk-(?:proj|svcacct|admin|None|or-v1|lf)-[\w-]{32,}"),
    "OpenAI, before": (
        "sk-",
        r"sk-(?:[\w-]{20,100}T3BlbkFJ[\w-]{20,}|[A-Za-z0-9]{32,64}(?![\w-]))",
    ),
    "OpenShift": ("sha256~", r"sha256~[\w-]{43}"),
    "1Password": ("ops_eyJ", r"ops_eyJ[A-Za-z0-9+/_-]{200,}=*"),
    "Perplexity": ("pplx-", r"pplx-[A-Za-z0-9]{40,}"),
    "Pinecone": ("pcsk_", r"pcsk_\w{50,}"),
    "PlanetScale": ("pscale_", r"pscale_(?:tkn|oauth|pw)_[\w=.-]{32,64}"),
    "Postman": ("PMAK-", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    "Pulumi": ("pul-", rf"pul-{_HEX_40}"),
    "PyPI": ("pypi-AgE", r"pypi-AgE[\w-]{50,}"),
    "Replicate": ("r8_", r"r8_[A-Za-z0-9]{32,40}(?!\w)"),
    "RubyGems": ("rubygems_", r"rubygems_[0-9a-f]{48}"),
    "SendGrid": ("SG.", r"SG\.[\w-]{16,32}\.[\w-]{16,64}"),
    "Sentry": ("sntry", r"sntry(?:u_[0-9a-f]{64}|s_[A-Za-z0-9+/=]{40,400}_[A-Za-z0-9+/]{43})"),
    "Shopify": ("shp", r"shp(?:at|ca|pa|ss|tka)_[0-9a-fA-F]{32}"),
    "Slack": ("xox xapp-", r"(?:xoxe\.)?(?:xox[a-z]|xapp)-(?=[\w%-]{0,40}\d)[\w%-]{16,}"),
    "Slack webhooks": ("hooks.slack", r"https://hooks\.slack(?:-gov)?\.com/[a-z]+/\w+/\w+/[\w/]+"),
    "SonarQube": ("sq", rf"sq[apu]_{_HEX_40}"),
    "Sourcegraph": ("sgp_", r"sgp_(?:\w{1,20}_)?[0-9a-f]{40}"),
    "Square": ("sq0 EAAA", r"(?:sq0[a-z]{3}-[\w-]{22,43}|EAAA[\w-]{60}(?!\w))"),
    "Stripe": ("_live_ _test_ _prod_", r"[sr]k_(?:live|test|prod)_[A-Za-z0-9]{16,250}"),
    "Stripe webhooks": ("whsec_", r"whsec_[A-Za-z0-9+/]{24,}=*"),
    "Supabase": ("sbp_ sb_secret_", r"(?:sbp_(?:v0_)?[0-9a-f]{40}|sb_secret_[\w-]{20,})"),
    "Tailscale": ("tskey-", r"tskey-[a-z]+-[\w-]{20,}"),
    "Tavily": ("tvly-", r"tvly-(?:dev-|prod-)?[A-Za-z0-9-]{28,}"),
    "Telegram": (":A", r"(?:bot)?(\d{8,10}:A[\w-]{34}(?![\w-]))"),
    "Tencent": ("AKID", r"AKID[A-Za-z0-9]{32}(?!\w)"),
    "Terraform": (".atlasv1.", r"\w{14}\.atlasv1\.[\w=-]{60,70}"),
    "Together": ("tgp_v1_", r"tgp_v1_[\w-]{40,}"),
    "Twilio": ("AC", rf"AC{_HEX_32}"),
    "Twilio keys": ("SK", rf"SK{_HEX_32}"),
    "Vault": ("hvs. hvb. hvr.", r"hv[sbr]\.[\w-]{24,}"),
    "Vercel": ("vc", r"vc[pirak]_[A-Za-z0-9]{24,}"),
    "xAI": ("xai-", r"xai-[A-Za-z0-9]{60,}"),
    "Yandex": ("AQVN y0_", r"(?:AQVN[\w-]{35,38}|y0_[\w-]{50,})"),
    "age": ("AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
    "crates.io": ("cio", r"cio[A-Za-z0-9]{32}(?!\w)"),
}
STAND_IN = re.compile(
    r"<.*>|x{3,}|\*{3,}|\.{3,}|your|example|changeme|placeholder|dummy|redacted|insert|%[sd(]|\{",
    re.IGNORECASE,
)
_NO_TOKEN = re.compile(r"(?i:x{5,}|your|example|placeholder|dummy|redacted|insert)|([0*])\1{7}")
_LONG = re.compile(r"[\w./+=~:@%-]{20,}", re.ASCII)
"""Only there can a token be, and few words are that long."""
_PRIVATE_KEY = re.compile(
    r"-{4,5} ?BEGIN (?P<kind>[A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?) ?-{4,5}"
    r"(?:(?!-----BEGIN).){1,20000}?-{4,5} ?END (?P=kind) ?-{4,5}",
    re.DOTALL,
)


def tokens(text: str) -> Iterator[PrivateSpan]:
    """Tokens of the services of the table, and blocks of private keys."""
    if "PRIVATE KEY" in text:
        for match in _PRIVATE_KEY.finditer(text):
            yield PrivateSpan(*match.span(), "key")
    long = " ".join(_LONG.findall(text))
    for hints, pattern in _by_hints():
        if any(hint in long for hint in hints):
            for match in pattern.finditer(text):
                start, end = match.span(match.lastindex or 0)
                if _stands_alone(text, match.start()) and _is_token(text[start:end]):
                    yield PrivateSpan(start, end, "key")


@cache
def _by_hints() -> list[tuple[list[str], re.Pattern[str]]]:
    return [(hints.split(), re.compile(pattern, re.ASCII)) for hints, pattern in TOKENS.values()]


def _stands_alone(text: str, start: int) -> bool:
    r"""Whether no word runs into the token: a ``\n`` in a string is no word."""
    before = text[max(0, start - 2) : start]
    return not before[-1:].isalnum() or before[:1] == "\\"


def _is_token(value: str) -> bool:
    """Whether ``value`` looks random: it mixes digits and letters, or letters of both cases."""
    if value.startswith("eyJ"):
        from detect_secrets.plugins import jwt  # noqa: PLC0415 - loads requests

        return bool(jwt.JwtTokenDetector.is_formally_valid(".".join(value.split(".")[:2])))
    tail = value[-20:]  # the beginning is the vendor's
    kinds = sum(any(map(kind, tail)) for kind in (str.isdigit, str.islower, str.isupper))
    return kinds > 1 and len(set(value)) >= 8 and not _NO_TOKEN.search(value)
