"""An expression is of a part of Python's grammar, and has the value that Python gives it."""

import dis
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placet_tools.policy import ToolPolicyError
from placet_tools.policy.expressions import FUNCTIONS, compile_expressions, parse_expression
from placet_tools.policy.json_types import ANY, NUMBER, TEXT, ValueType, fields_of, type_at
from tests.levels import examples

FIELDS = {
    "euro": ValueType(NUMBER),
    "rest": ValueType(NUMBER | {"null"}),
    "order": ValueType(TEXT),
    "urgent": ValueType(frozenset({"boolean"})),
    "tags": ValueType(frozenset({"array"}), TEXT),
    "data": ValueType(ANY),
    "agent": ValueType(TEXT),
}
PYTHON: dict[str, Any] = {"__builtins__": {}} | {
    name: called for name, (called, *_) in FUNCTIONS.items()
}

values = st.fixed_dictionaries(
    {
        "euro": st.integers(-5, 5) | st.floats(-5, 5),
        "rest": st.none() | st.integers(-5, 5),
        "order": st.text("aB7", max_size=4),
        "urgent": st.booleans(),
        "tags": st.lists(st.text("aB7", max_size=2), max_size=3),
        "data": st.none() | st.booleans() | st.integers() | st.text("aB", max_size=2),
    }
)


def around(parts: st.SearchStrategy[str], form: str) -> st.SearchStrategy[str]:
    """Return texts of a form such as `({} + {})`, with parts in the places."""
    return st.tuples(*[parts] * form.count("{}")).map(lambda found: form.format(*found))


numbers: st.SearchStrategy[str] = st.deferred(
    lambda: (
        st.sampled_from(["euro", "rest", "0", "1", "2.5", "len(order)", "len(tags)"])
        | around(numbers, "(-{})")
        | st.sampled_from(["+", "-", "*", "/"]).flatmap(
            lambda op: around(numbers, f"({{}} {op} {{}})")
        )
        | around(texts, "len({})")
    )
)
texts: st.SearchStrategy[str] = st.deferred(
    lambda: st.sampled_from(["order", "agent", "''", "'a'", '"aB7"']) | around(texts, "lower({})")
)
booleans: st.SearchStrategy[str] = st.deferred(
    lambda: (
        st.sampled_from(["urgent", "True", "False", "rest == None", "rest != None"])
        | around(booleans, "(not {})")
        | around(booleans, "({} and {})")
        | around(booleans, "({} or {} or {})")
        | st.sampled_from(["<", "<=", ">", ">=", "==", "!="]).flatmap(
            lambda op: (
                around(numbers, f"({{}} {op} {{}} <= {{}})") | around(texts, f"{{}} {op} {{}}")
            )
        )
        | around(texts, "startswith({}, {})")
        | around(texts, "endswith({}, {})")
        | around(texts, "({} in {})")
        | around(texts, "({} not in tags)")
        | around(numbers, "({} in [{}, {}])")
        | around(texts, "({} in ({}, {}))")
    )
)


def judged(text, call, agent="ann"):
    """Return whether an expression holds, or the class of what it raises."""
    judge = compile_expressions([parse_expression(text, FIELDS, "here")])
    try:
        return judge(call, agent, {}) == 0
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return "raises"


def by_python(text, call, agent="ann"):
    try:
        return eval(text, PYTHON, {**call, "agent": agent})
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return "raises"


@settings(max_examples=examples(300))
@given(text=booleans, call=values)
def test_an_expression_has_the_value_that_python_gives_it(text, call):
    if len(text) <= 1_000 and depth_of(text) <= 30:
        assert judged(text, call) == by_python(text, call)


def depth_of(text):
    level = deepest = 0
    for sign in text:
        level += (sign in "([") - (sign in ")]")
        deepest = max(deepest, level)
    return deepest + text.count("not ")


@settings(max_examples=examples(300))
@given(call=values)
@pytest.mark.parametrize(
    "text",
    ["data > 1", "data == 'a'", "data + 1 > 0", "data and urgent", "lower(data) == 'a'", "data",
     "len(data) > 1", "'a' in data", "data in ['a', 1]", "not data", "data * 2 == 4"],
)  # fmt: skip
def test_a_value_of_any_type_is_checked_at_the_call(text, call):
    found = judged(text, call)
    assert found in {by_python(text, call), "raises"}


WORDS = [
    *("euro", "order", "tags", "data", "urgent", "agent", "result", "__class__", "__import__"),
    *("len", "lower", "eval", "print", "True", "None", "1", "2.5", "'a'", "b'a'", "f'{euro}'"),
    *("+", "-", "*", "/", "**", "%", "//", "<", ">", "==", "=", ":=", "and", "or", "not", "in"),
    *("is", "if", "else", "for", "lambda", "await", "yield", "(", ")", "[", "]", "{", "}", ","),
    *(".", ":", "...", "|", "&", "~", "@", "\\", "\n", "#", ";", "import"),
]
SAFE_OPERATIONS = re.compile(
    r"RESUME|CACHE|PUSH_NULL|PRECALL|CALL|SWAP|COPY|NOP|POP_TOP|RETURN_\w+|LOAD_(?!ATTR|METHOD|NAME)"
    r"\w+|STORE_FAST\w*|BINARY_OP|BINARY_SUBSCR|COMPARE_OP|CONTAINS_OP|UNARY_(?!INVERT)\w+|TO_BOOL|"
    r"BUILD_TUPLE|JUMP_\w+|POP_JUMP_\w+"
)


@settings(max_examples=examples(1_000))
@given(words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=9), text=booleans)
def test_an_accepted_text_runs_nothing_but_the_grammar(words, text):
    for candidate in (" ".join(words), "".join(words), f"{text} and {' '.join(words)}"):
        try:
            expression = parse_expression(candidate, FIELDS, "here")
        except ToolPolicyError:
            continue
        code = compile_expressions([expression]).__code__
        assert {one.opname for one in dis.get_instructions(code) if not allowed(one)} == set()
        assert set(code.co_names) <= {
            f"c_{name}" for name in (*FUNCTIONS, "number", "text", "boolean")
        }
        assert not any(hasattr(constant, "co_code") for constant in code.co_consts)


def allowed(instruction):
    return SAFE_OPERATIONS.fullmatch(instruction.opname) is not None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("eruo > 1", "no such field 'eruo'; did you mean 'euro'?"),
        ("true", "no such field 'true'; did you mean 'True'?"),
        ("lenn(order) > 1", "no such function 'lenn'; did you mean 'len'?"),
        ("euro > 'x'", "> compares two numbers or two texts, got number and string"),
        ("euro == 'x'", "number and string are never equal"),
        ("order == 5", "string and number are never equal"),
        ("order", "'order': the expression must be of type boolean, got type string"),
        ("euro and urgent", "an operand of and must be of type boolean, got type number"),
        ("not euro", "the operand of not must be of type boolean, got type number"),
        ("order + 'x' == 'ax'", "an operand of + must be of type number, got type string"),
        ("-order > 1", "the operand of - must be of type number, got type string"),
        ("5 in tags", "a value of type number is never in one of type array of string"),
        ("5 in order", "a value of type number is never in one of type string"),
        ("euro in []", "is never in one of type array"),
        ("tags == tags", "== and != compare single values"),
        ("len(euro) > 1", "an argument of len must be of type array or object or string"),
        ("len(order, order) > 1", "len takes 1 argument, got 2"),
        ("startswith(order) == True", "startswith takes 2 arguments, got 1"),
        ("lower(order=order) == 'a'", "it is not of the expression language"),
        ("order.lower() == 'a'", "'order.lower()': it is not of the expression language"),
        ("order.real == 1", "it is not of the expression language"),
        ("result.euro > 1", "it is not of the expression language"),
        ("().__class__ == 1", "it is not of the expression language"),
        ("__import__('os') == 1", "no such function '__import__'"),
        ("2 ** 9 > 1", "it is not of the expression language"),
        ("euro % 2 == 1", "it is not of the expression language"),
        ("euro is None", "it is not of the expression language"),
        ("tags[0] == 'a'", "it is not of the expression language"),
        ("[x for x in tags] == 1", "it is not of the expression language"),
        ("(lambda: True)()", "it is not of the expression language"),
        ("True if urgent else False", "it is not of the expression language"),
        ("(y := urgent)", "it is not of the expression language"),
        ("f'{order}' == 'a'", "it is not of the expression language"),
        ("order in [['a']]", "it is not of the expression language"),
        ("euro > 1e999", "it is not of the expression language"),
        ("euro > 1j", "it is not of the expression language"),
        ("order == b'a'", "it is not of the expression language"),
        ("...", "it is not of the expression language"),
        ("order == '\ud800'", "is no expression: 'utf-8' codec can't encode"),
        ("euro >", "is no expression: invalid syntax"),
        ("euro > 1; urgent", "is no expression: invalid syntax"),
        ("euro \0 > 1", "is no expression"),
        ("not " * 33 + "urgent", "it is nested more than 32 levels deep"),
        ("-" * 900 + "1 > 0", "it is nested more than 32 levels deep"),
        ("(" * 400 + "1" + ")" * 400, "is no expression"),
        ("urgent or " * 101, "an expression has at most 1000 characters"),
        ("", "an expression is a text such as"),
        (5, "an expression is a text such as 'euro > 100', got 5"),
    ],
)  # fmt: skip
def test_another_text_is_refused_with_its_place(text, message):
    with pytest.raises(ToolPolicyError) as error:
        parse_expression(text, FIELDS, "tools.refund.approval")
    assert str(error.value).startswith("tools.refund.approval: ")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (True, True),
        ("euro > 100 and not startswith(order, 'TEST')", True),
        ("0 < euro < 100", False),
        ("agent == 'ann'", True),
        ("lower(order) in ['a7', 'b2']", True),
        ("'A' in order and order not in tags", True),
        ("rest == None or rest > 5", True),
        ("rest > 5", "raises"),
        ("euro / 0 > 1", "raises"),
    ],
)
def test_an_expression_is_evaluated(text, value):
    call = {"euro": 150, "order": "A7", "rest": None, "tags": [], "data": 1, "urgent": False}
    assert judged(text, call) == value


def test_the_first_expression_that_holds_is_found():
    texts = ["euro > 400", "euro > 100", "startswith(order, 'A')"]
    judge = compile_expressions([parse_expression(text, FIELDS, "here") for text in texts])
    assert judge({"euro": 150, "order": "A"}, "ann", {}) == 1
    assert judge({"euro": 50, "order": "A"}, "ann", {}) == 2
    assert judge({"euro": 50, "order": "B"}, "ann", {}) == -1


RESULT = {
    "type": "object",
    "properties": {
        "euro": {"type": "integer"},
        "to": {"$ref": "#/$defs/To"},
        "free": {"type": "object"},
    },
    "$defs": {"To": {"type": "object", "properties": {"city": {"type": "string"}}}},
}


def test_a_condition_reads_fields_of_the_result():
    text = "result.euro >= euro and result.to.city == order and result.free.a_b.c == 1"
    expression = parse_expression(text, FIELDS, "here", result=RESULT)
    assert expression.paths == ("euro", "free.a_b.c", "to.city")
    values = {"euro": 5, "to.city": "A7", "free.a_b.c": 1}
    judge = compile_expressions([expression])
    assert judge({"euro": 5, "order": "A7"}, "ann", values) == 0
    assert judge({"euro": 6, "order": "A7"}, "ann", values) == -1
    with pytest.raises(KeyError):
        judge({"euro": 5, "order": "A7"}, "ann", {"euro": 5})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("result.eruo > 1", "no such field of the result 'eruo'; did you mean 'euro'?"),
        ("result.to.ctiy == 'a'", "no such field of the result 'ctiy'; did you mean 'city'?"),
        ("result.euro > 'a'", "> compares two numbers or two texts"),
        ("result == 1", "name a field of the result, such as result.euro"),
        ("euro.result == 1", "it is not of the expression language"),
    ],
)
def test_a_misspelled_field_of_the_result_is_refused(text, message):
    with pytest.raises(ToolPolicyError, match=re.escape(message)):
        parse_expression(text, FIELDS, "here", result=RESULT)


DEFINITIONS = {"One": {"type": "string"}, "Loop": {"$ref": "#/$defs/Loop"}}


@pytest.mark.parametrize(
    ("schema", "kinds"),
    [
        ({"type": "integer"}, NUMBER),
        ({"type": ["string", "null"]}, TEXT | {"null"}),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, NUMBER | {"null"}),
        ({"enum": ["a", 1, None, True]}, ANY - {"array", "object"}),
        ({"const": "a"}, TEXT),
        ({"$ref": "#/$defs/One"}, TEXT),
        ({"$ref": "#/$defs/Missing"}, ANY),
        ({"$ref": "#/$defs/Loop"}, ANY),
        ({}, ANY),
        (True, ANY),
        ({"type": "strange"}, ANY),
    ],
)
def test_the_type_of_a_field_is_that_of_its_schema(schema, kinds):
    root = {"properties": {"one": schema}, "$defs": DEFINITIONS}
    assert fields_of(root)["one"].kinds == kinds


def test_a_schema_that_refers_to_itself_is_of_any_type():
    loop = {"$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}]}}, "$ref": "#/$defs/A"}
    assert fields_of({"properties": {"one": loop}, **loop})["one"].kinds == ANY
    assert type_at({"type": "array"}, "euro.cent", "here").kinds == ANY


def test_the_items_of_a_list_have_types():
    schema = {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]}
    assert fields_of({"properties": {"one": schema}})["one"].items == TEXT
