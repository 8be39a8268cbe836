"""Phrases, and the catalogue of their translations."""

from __future__ import annotations

import json
import pickle
import string

import pytest

from swapconf.words import phrases
from swapconf.words.phrases import Phrase, joined, packed, phrase, plural, show, unpacked

pytest.importorskip("babel")
import build_translations


def test_a_phrase_is_its_english_text() -> None:
    assert phrase("{a} of {b:.1f}", a=1, b=2.0) == "1 of 2.0"
    assert plural(1, "{count} file", "{count} files") == "1 file"
    assert plural(0, "{count} file", "{count} files") == "0 files"
    assert joined(", ", ["a", "{}"]) == "a, {}"
    assert joined(", ", []) == ""
    assert show(phrase("nothing found in {files}", files=3)) == "nothing found in 3"


def test_what_a_phrase_holds_is_shown_in_the_language_in_use(chinese: None) -> None:
    files = plural(2, "{count} file", "{count} files")
    inner = joined("; ", [phrase("error"), files])
    assert show(files) == "2个文件"
    assert show(phrase("nothing found in {files}", files=inner)) == "在错误；2个文件中没有发现问题"
    assert show(joined(", ", [])) == ""
    assert show("nothing found in {files}") == "nothing found in {files}"
    assert show(phrase("no such text in any catalogue: {name}", name="{x}")) == "no such text in any catalogue: {x}"


def test_a_phrase_stays_one_in_an_exception_and_in_another_process() -> None:
    made = phrase("nothing found in {files}", files=plural(2, "{count} file", "{count} files"))
    through_json = unpacked(json.loads(json.dumps(packed(made))))
    for copy in (str(ValueError(made)), pickle.loads(pickle.dumps(made)), through_json):
        assert isinstance(copy, Phrase)
        assert (copy, copy.template) == (made, made.template)
        assert isinstance(copy.values["files"], Phrase)


@pytest.mark.parametrize("language", [name for name in phrases.LANGUAGES if name != phrases.ENGLISH])
class TestCatalogue:
    def test_it_is_complete(self, language: str) -> None:
        assert build_translations.missing(build_translations.renewed(language)) == [], (
            "translate these in the .po file, then run `just generate`"
        )

    def test_it_is_built(self, language: str) -> None:
        file = build_translations.place(language)
        assert file.read_text(encoding="utf-8") == build_translations.as_po(build_translations.renewed(language))
        assert file.with_suffix(".mo").read_bytes() == build_translations.as_mo(build_translations.translated(language))

    def test_translations_name_the_same_values(self, language: str) -> None:
        plain = {text for text, _ in build_translations.help_texts()}
        for message in build_translations.translated(language):
            if message.id and message.id not in plain:
                texts = [message.string] if isinstance(message.string, str) else message.string or ()
                originals = [message.id] if isinstance(message.id, str) else message.id
                for text in texts:
                    assert _names(text) <= set.union(*map(_names, originals)), message.id
                    assert _names(originals[-1]) <= _names(text), message.id


def _names(template: str) -> set[str]:
    """The values that a template names, with how they are written."""
    return {f"{name}:{form}" for _, name, form, _ in string.Formatter().parse(template) if name is not None}
