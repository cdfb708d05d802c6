"""Secrets are redacted in the lines of session files; everything else is unchanged."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from mainspring.messages import ImageBlock, Message, RedactedThinkingBlock, ThinkingBlock
from mainspring.redaction import Redactor, redact_environment
from mainspring.sessions import MessageEntry, encode_entry

KEYS = [
    "sk-proj-" + "a1B2" * 10,
    "sk-ant-api03-" + "x9_-" * 20,
    "gsk_" + "a1B2" * 10,
    "csk-" + "a1b2" * 10,
    "xai-" + "a1B2" * 10,
    "nvapi-" + "a1B2" * 10,
    "hf_" + "a1B2" * 8,
    "r8_" + "a1B2" * 8,
    "pplx-" + "a1B2" * 8,
    "fw_" + "a1B2" * 8,
    "tgp_v1_" + "a1B2" * 8,
    "lsv2_pt_" + "a1b2" * 8,
    "ghp_" + "aB3d" * 9,
    "gho_" + "aB3d" * 9,
    "ghu_" + "aB3d" * 9,
    "ghs_" + "aB3d" * 9,
    "ghr_" + "aB3d" * 9,
    "github_pat_" + "aB3d_" * 12,
    "AIza" + "aB3d-" * 7,
    "ya29." + "aB3d-" * 7,
    "AKIA" + "ABC4" * 4,
    "ASIA" + "ABC4" * 4,
    "xoxb-" + "123456789-" * 3,
    "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0." + "dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
]

HARMLESS = [
    "api_key = os.environ['API_KEY']",
    'password: "the one you chose"',
    "class=sk-folding-cube-with-a-long-name",
    "hf_hub_download_to_a_local_folder(repo)",
    "key_management_service_account_name",
    "fw_rules_of_the_internal_network_list",
    "eyJust a word",
    "Authorization: Bearer $TOKEN",
    "AKIASHORT and xoxb-short",
]


def encode_line(message: Message) -> bytes:
    return encode_entry(
        MessageEntry(id="1", parent=None, timestamp=datetime.now(UTC), message=message, source="prompt")
    )


@pytest.mark.parametrize("key", KEYS)
def test_key_is_redacted(key: str) -> None:
    assert redact_environment(f"use {key}, or not") == "use [redacted], or not"
    line = Redactor().line(encode_line(Message.user(f"use {key}, or not")))
    assert json.loads(line)["message"]["content"][0]["text"] == "use [redacted], or not"


@pytest.mark.parametrize("text", HARMLESS)
def test_code_that_mentions_keys_is_unchanged(text: str) -> None:
    line = encode_line(Message.user(text))
    assert Redactor().line(line) is line


def test_values_of_key_variables_are_redacted() -> None:
    filter = Redactor.of({"MY_TOKEN": 'tok"en\\é-value', "X_API_KEY": "short", "HOME": "/home/me"})
    line = filter.line(encode_line(Message.user('the tok"en\\é-value of /home/me is short')))
    assert json.loads(line)["message"]["content"][0]["text"] == "the [redacted] of /home/me is short"


def test_provider_signatures_and_images_are_unchanged() -> None:
    key = KEYS[0]
    blocks: list[Any] = [ThinkingBlock("hm", key), RedactedThinkingBlock(key), ImageBlock("image/png", key)]
    line = encode_line(Message.assistant(blocks))
    assert Redactor().line(line) == line
