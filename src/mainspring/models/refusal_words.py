"""Rewrite the text of a rejection so that `parse_limits` finds its limits: plain numbers, and English terms.

Loaded only after a rejection.
"""

from __future__ import annotations

import re

from mainspring.lazy import lazy_re

_GROUPED = lazy_re(r"(?<![\w.,-])\d{1,3}(?:([_'’\u00a0\u2009\u202f])\d{3})(?:\1\d{3})*(?![\w.,]?\d)")
_GROUPED_BEFORE_TOKENS = lazy_re(
    r"(?<![\w.,-])\d{1,3}(?:([. ])\d{3})(?:\1\d{3})*(?= ?(?:tokens?|toks?|トークン|토큰)\b)"
)
_UNIT = lazy_re(r"(?<![\w.,-])(\d+(?:\.\d+)?) ?([km])(?![\w-])")
_FACTORS = {"k": 1_000, "m": 1_000_000}
"""Hosts also mean 1,024; the lower number is always accepted."""

_TERMS: tuple[tuple[re.Pattern[str], str], ...] = (
    # Chinese, simplified and traditional
    (
        lazy_re(r"最大(?:的)?(?:上下文|内容)(?:[长長]度|窗口|視窗)?|上下文(?:[长長]度|窗口|視窗|限制|大小)"),
        " context length ",
    ),
    (
        lazy_re(r"最大(?:的)?(?:输出|輸出|生成|补全)(?:[长長]度)?|(?:输出|輸出|生成)(?:的)?(?:[长長]度|上限)"),
        " maximum output tokens ",
    ),
    (lazy_re(r"最大(?:的)?(?:输入|輸入)(?:[长長]度)?"), " maximum input length "),
    (lazy_re(r"最大(?:值|限制)?|上限"), " maximum "),
    (
        lazy_re(
            r"(?:不能|不得|不可|不应|不)(?:超过|超過|大于|大於|超出)|(?:必须|必須|应|需)?(?:小于|小於)等于|最多(?:支持)?"
        ),
        " not exceed ",
    ),
    (lazy_re(r"超过|超過|超出|大于|大於|超[长長]"), " exceeds "),
    (lazy_re(r"取值范围|取值範圍|范围|範圍"), " range "),
    (lazy_re(r"之和|的总和|总和"), " + sum "),
    (lazy_re(r"输入|輸入|提示词?"), " input "),
    (lazy_re(r"补全|输出|輸出|生成"), " completion "),
    (lazy_re(r"消息|訊息"), " messages "),
    (lazy_re(r"请求|請求"), " requested "),
    (lazy_re(r"[总總][长長]度|总数|總數"), " total "),
    (lazy_re(r"[长長]度"), " length "),
    (lazy_re(r"[个個的了您数數]|当前|目前|其中|模型|实际"), " "),
    (lazy_re(r"[为為是]|(?:达到|等于)"), " is "),
    # Japanese and Korean
    (
        lazy_re(
            r"最大コンテキスト(?:長|ウィンドウ)?|コンテキスト(?:長|ウィンドウ)|최대 ?컨텍스트(?: ?길이| ?창)?|컨텍스트 ?(?:길이|창)"
        ),
        " context length ",
    ),
    (lazy_re(r"最大出力(?:トークン数?)?|최대 ?출력(?: ?토큰)?"), " maximum output tokens "),
    (lazy_re(r"トークン数?|토큰"), " tokens "),
    (lazy_re(r"リクエスト|요청"), " requested "),
    # German, French, Spanish, Portuguese, and Italian
    (
        lazy_re(
            r"(?:maximale )?kontext(?:länge|fenster|größe)|longueur (?:maximale )?d[eu] contexte|longueur maximale du contexte|"
            r"fenêtre de contexte|longitud (?:máxima )?de(?:l)? contexto|ventana de contexto|"
            r"(?:comprimento|tamanho) (?:máximo )?(?:do|de) contexto|lunghezza (?:massima )?del contesto"
        ),
        " context length ",
    ),
    (lazy_re(r"jetons"), "tokens"),
)
_FULL_WIDTH = str.maketrans("０１２３４５６７８９，：；（）［］＜＞＝～。、", "0123456789,:;()[]<>=~. ")


def rewrite_limits(text: str) -> str:
    """Return a text in lower case with its numbers as digits, and with English terms for limits.

    Args:
        text: Text of a rejection.
    """
    text = text.lower().translate(_FULL_WIDTH)
    text = _GROUPED.sub(lambda found: found[0].replace(found[1], ""), text)
    text = _GROUPED_BEFORE_TOKENS.sub(lambda found: found[0].replace(found[1], ""), text)
    text = _UNIT.sub(lambda found: str(int(float(found[1]) * _FACTORS[found[2]])), text)
    if not text.isascii():
        for pattern, term in _TERMS:
            text = pattern.sub(term, text)
    return " ".join(text.split())
