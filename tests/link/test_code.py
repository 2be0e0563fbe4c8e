"""Codes with which sites join."""

from __future__ import annotations

import base64
import zlib

import pytest

from speck.errors import InvalidInput
from speck.link.code import JoinCode, server_mark

CODE = JoinCode(site="crossroads", server=server_mark("store"), fingerprint=bytes(range(32)))


@pytest.mark.parametrize("code", [CODE, JoinCode(site="A", server=server_mark("other"))])
def test_a_code_is_read_as_it_was_made(code: JoinCode) -> None:
    assert JoinCode.parse(code.text()) == code
    assert JoinCode.parse(f"  {code.text()}\n") == code
    assert code.secret.hex() not in repr(code)
    assert str(code.secret) not in repr(code)


def test_each_code_has_a_secret_of_its_own() -> None:
    one, other = (JoinCode(site="A", server=server_mark("store")) for _ in range(2))
    assert one.secret != other.secret
    assert one.sha256 != other.sha256
    assert len(one.secret) * 8 == 128


def test_each_damage_is_found() -> None:
    text = CODE.text()
    for index in range(len("speck-"), len(text)):
        other = "A" if text[index] != "A" else "B"
        with pytest.raises(InvalidInput, match=r"damaged or not complete"):
            JoinCode.parse(text[:index] + other + text[index + 1 :])
        with pytest.raises(InvalidInput, match=r"damaged or not complete"):
            JoinCode.parse(text[:index])


@pytest.mark.parametrize("text", ["", "hello", "SPECK-AAAA"])
def test_other_text_is_no_code(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"not a code to join .expected speck-"):
        JoinCode.parse(text)


def test_a_later_format_is_named() -> None:
    packed = CODE.text().removeprefix("speck-")
    content = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))[:-4]
    later = bytes([9]) + content[1:]
    text = base64.urlsafe_b64encode(later + zlib.crc32(later).to_bytes(4, "big")).decode()
    with pytest.raises(InvalidInput, match=r"format 9 .expected 1"):
        JoinCode.parse(f"speck-{text}")
