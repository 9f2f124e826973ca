"""The Chinese pages say what the English ones say: the same code, links in both directions, the words of the glossary.

The examples of a Chinese page are those of its English page, comments aside, so that they are not executed twice.
"""

from __future__ import annotations

import re
from itertools import zip_longest
from pathlib import Path

import pytest

from unified_profiler.presentation.texts import texts

ROOT = Path(__file__).parents[2]
DOCS, CHINESE = ROOT / "docs", ROOT / "docs" / "zh"
PAGES = [page.relative_to(CHINESE).as_posix() for page in sorted(CHINESE.rglob("*.md"))]
README = (ROOT / "README.md", ROOT / "README.zh.md")
FENCE = re.compile(r"^( *)```(\w*)(?: title=\"(.*?)\")?\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r" *(?:^|(?<=\s))# .*$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)]+)\)")
ROW = re.compile(r"^\| ([^|]+?) \| ([^|]+?) \|", re.MULTILINE)
ENGLISH_ONLY = "以下页面目前只有英文"
SWITCH = r"\A# .*\n\n(?:English · \[中文\]\((?P<chinese>.*)\)|\[English\]\((?P<english>.*)\) · 中文)\n"
HAN, MARK = r"[\u4e00-\u9fff]", r"[\uff0c\u3002\uff1b\uff1a\uff01\uff1f\u3001\uff08\uff09]"
MISTAKES = {
    "a half-width mark at Chinese": rf"{HAN}[,;:!?()]|\({HAN}",
    "no space between Chinese and Latin letters, numbers or code": rf"{HAN}[A-Za-z0-9`]|[A-Za-z0-9`]{HAN}",
    "a space at a full-width mark": rf"{MARK} (?![·|])|(?<!\|) {MARK}",
    "a line that ends within a Chinese sentence, where a browser shows a space": rf"{HAN}\n{HAN}",
}


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def code(page: Path) -> list[tuple[str, str, str]]:
    """Return kind, file name and text of each fence, without comments; titles other than file names are translated."""
    return [
        (kind, title if title.endswith(".py") else "", COMMENT.sub("", text))
        for _, kind, title, text in FENCE.findall(read(page))
    ]


def prose(text: str) -> str:
    """Return a page without its code, the targets of its links, HTML and marks of emphasis."""
    return re.sub(r"<[^>]*>|\]\([^)]*\)|[*\[\]]", "", re.sub(r"`[^`\n]*`", "``", FENCE.sub("", text)))


def avoided() -> list[str]:
    """Return the words that the Chinese glossary replaces by others."""
    rows = ROW.findall(read(CHINESE / "glossary.md").split("## 不用的词")[1])
    return [word for words, _ in rows[1:] for word in words.split("、")]


# --- the English page -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_the_code_of_its_english_page(name: str) -> None:
    for english, chinese in zip_longest(code(DOCS / name), code(CHINESE / name)):
        assert english == chinese


@pytest.mark.parametrize("name", [name for name in PAGES if name not in {"index.md", "glossary.md"}])
def test_a_page_has_the_sections_of_its_english_page(name: str) -> None:
    levels = [re.findall(r"^#+(?= )", FENCE.sub("", read(folder / name)), re.MULTILINE) for folder in (DOCS, CHINESE)]
    assert levels[0] == levels[1]


@pytest.mark.parametrize("name", PAGES)
def test_both_pages_lead_to_each_other(name: str) -> None:
    english, chinese = DOCS / name, CHINESE / name
    there, back = (re.match(SWITCH, read(page)) for page in (english, chinese))
    assert there is not None
    assert back is not None
    assert (english.parent / there["chinese"]).resolve() == chinese
    assert (chinese.parent / back["english"]).resolve() == english


@pytest.mark.parametrize("name", PAGES)
def test_a_page_leads_to_chinese_pages_where_there_are_some(name: str) -> None:
    page = CHINESE / name
    links = [link.partition("#")[0] for link in LINK.findall(re.sub(SWITCH, "", read(page)))]
    targets = [(page.parent / link).resolve() for link in links if link and "://" not in link]
    english = [path.relative_to(DOCS).as_posix() for path in targets if CHINESE not in path.parents]
    assert not set(english) & set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_links_to_english_pages_are_marked(name: str) -> None:
    page = CHINESE / name
    text = re.sub(SWITCH, "", read(page))
    if name == "index.md":  # it has a table of English pages
        text = re.sub(rf"{ENGLISH_ONLY}\uff1a\n\n(\|.*\n)+", "", text)
    links = re.findall(r"(?<!!)\[[^\]]*\]\((\.\.[^)#]*\.md)[^)]*\)(\uff08英文\uff09)?", text)
    marked = [(CHINESE not in (page.parent / link).resolve().parents, bool(mark)) for link, mark in links]
    assert [is_english for is_english, _ in marked] == [is_marked for _, is_marked in marked]


def test_both_languages_of_the_readme_have_the_same_code_sections_and_links() -> None:
    english, chinese = map(read, README)
    assert code(README[0]) == code(README[1])
    assert re.findall(r"^#+", english, re.MULTILINE) == re.findall(r"^#+", chinese, re.MULTILINE)
    translated = {"README.zh.md": "README.md", **{f"docs/{name}": f"docs/zh/{name}" for name in PAGES}}
    assert [translated.get(link, link) for link in LINK.findall(english)] == LINK.findall(chinese)


def test_the_page_on_reports_has_the_sections_and_questions_of_their_guide() -> None:
    words = texts("zh")
    names = [match[1] for key in words if (match := re.fullmatch(r"ui\.reading\.(\w+)\.question", key))]
    headings = re.findall(r"^## (.+)\n\n\*\*(.+)\*\*$", read(CHINESE / "how-to" / "read-a-report.md"), re.MULTILINE)
    assert headings == [(words[f"ui.sections.{name}"], words[f"ui.reading.{name}.question"]) for name in names]


# --- words and punctuation --------------------------------------------------------------------------------------------


def test_the_chinese_glossary_has_every_term_of_the_english_one() -> None:
    english, chinese = ([term for term, _ in ROW.findall(read(folder / "glossary.md"))] for folder in (DOCS, CHINESE))
    assert not set(english) - {"term"} - set(chinese)


def chinese_texts() -> dict[str, str]:
    pages = {f"docs/zh/{name}": prose(read(CHINESE / name)) for name in PAGES}
    return {**pages, "README.zh.md": prose(read(README[1])), **texts("zh")}


def test_no_text_has_a_word_that_the_glossary_replaces() -> None:
    checked = {name: text for name, text in chinese_texts().items() if name != "docs/zh/glossary.md"}
    assert not [(name, word) for name, text in checked.items() for word in avoided() if word in text]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_no_text_has_a_mistake_of_punctuation(mistake: str) -> None:
    matches = {name: re.search(MISTAKES[mistake], text) for name, text in chinese_texts().items()}
    assert not {name: match[0] for name, match in matches.items() if match}
