"""How the pages write values for a decision: nothing hides, and different values differ."""

import json
import random
import shutil
import subprocess
from importlib.resources import files

import pytest

from placet.server import dashboard

NODE = shutil.which("node")

pytestmark = pytest.mark.skipif(NODE is None, reason="there is no node")

CHARACTERS = (
    'ab 1"\\/n\n\t\r\0\x1b\x7f\xa0\xad\u0301\u034f\u200b\u200d\u202e\u2028\u2066\u2800\u3000\u3164'
    "\ue000\ufe0e\ufe0f\ufeff\uffff\U000e0041\U000e0100\U0001f600\u2764\xe9\u0430\u5317"
)


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """Run an expression over the modules of the page; its input is `given`."""
    folder = tmp_path_factory.mktemp("pages")
    for name in ("values.js", "exact_json.js", "chart.js"):
        text = files(dashboard).joinpath(name).read_text("utf-8")
        folder.joinpath(name).write_text(text, "utf-8")
    folder.joinpath("package.json").write_text('{"type": "module"}', "utf-8")

    def run(expression, given):
        script = folder / "asked.js"
        script.write_text(
            'import { keyText, prose, quoted, remarks, written } from "./values.js";\n'
            'import { parseExactly, writeExactly } from "./exact_json.js";\n'
            "const given = JSON.parse(await new Response(process.stdin).text());\n"
            f"console.log(JSON.stringify({expression}));",
            "utf-8",
        )
        told = subprocess.run(
            [str(NODE), script],
            input=json.dumps(given),
            capture_output=True,
            check=True,
            timeout=120,
            text=True,
        )
        return json.loads(told.stdout)

    return run


def some_texts(count):
    draw = random.Random(7)
    texts = ["".join(draw.choices(CHARACTERS, k=draw.randrange(6))) for _ in range(count)]
    return list(dict.fromkeys(texts))


def test_a_text_is_read_again_as_it_was_and_no_character_of_it_hides(ask):
    texts = some_texts(3_000)
    shown = ask("given.map((one) => [quoted(one), prose(one), keyText(one)])", texts)
    assert [json.loads(quoted) for quoted, _, _ in shown] == texts
    for column in zip(*shown, strict=True):
        assert len(set(column)) == len(texts)
    for quoted, _, _ in shown:
        assert not set("\n\t\r\0\x1b\x7f\xa0\xad\u200b\u202e\u2028\u2800\ue000\uffff") & set(quoted)
        assert not quoted.startswith(('" ', '"\u0301'))
        assert not quoted.endswith(' "')


REMARKS = {
    "pay zoe 5 €": [],
    "für café": [],
    "оплатить счёт": [],
    "北京 and Paris": [],
    "z\u043ee": ["letters of Latin and Cyrillic: \u043e U+043E"],
    "\u0430": ["Cyrillic letters that look like Latin ones: \u0430 U+0430"],
    "\u03bf": ["Greek letters that look like Latin ones: \u03bf U+03BF"],
    "cafe\u0301": ["composed in another way than usual, not in Unicode NFC: e\u0301 U+0065 U+0301"],
    "\uff41dmin": ["characters that are no plain letters or digits: \uff41 U+FF41"],
}


def test_a_text_that_looks_like_another_one_has_a_remark(ask):
    assert dict(zip(REMARKS, ask("given.map(remarks)", list(REMARKS)), strict=True)) == REMARKS


def test_numbers_are_kept_as_they_are_written(ask):
    numbers = "1,1.0,-0,-0.0,1e400,9007199254740993,0.1,1E2"
    text = f'{{"a":[{numbers},true,null],"__proto__":{{"constructor":1}}}}'
    assert ask("writeExactly(parseExactly(given))", text) == text


FAULTS = {
    '{"amount": 5,\n"amount": 9999}': 'line 2: the key "amount" comes twice in one object',
    '{"a": {"b": 1, "\\u0062": 2}}': 'the key "b" comes twice',
    '{"a": NaN}': "a value is expected, not “NaN”",
    '{"a": -Infinity}': "a value is expected, not “-Infinity”",
    '{"a": 01}': ", or } is expected after a value, not “1”",
    '{"a": 1,}': "a key in double quotes is expected, not “}”",
    "{'a': 1}": "a key in double quotes is expected",
    '{"a": "x\ny"}': "a text has a line break",
    '{"a": "x': "a text has no closing quote",
    '{"a": 1} {"a": 2}': "the JSON ends before “{”",
    "": "a value is expected, not the end",
    "[" * 300: "nested more than 256 deep",
}


def test_json_that_is_ambiguous_or_no_json_is_refused_with_its_line(ask):
    caught = "try { return parseExactly(one); } catch (error) { return error.message; }"
    messages = ask(f"given.map((one) => {{ {caught} }})", list(FAULTS))
    for message, fault in zip(messages, FAULTS.values(), strict=True):
        assert fault in message
