"""Sentences: each is parsed to exactly these actions, or has these candidates."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.design.phases.chain import SHIP

from placet_design import ActionExecutor, ActionPlan, StateManager
from placet_design.actions.protocol import Action, ActionType, IntentType
from placet_design.phases import PHASES
from placet_design.refinable_fields import REFINABLE_SCHEMA, RefinableField
from placet_design.text.lexicon import _UNIT_PHRASES, _UNIT_WORDS, PERCENT, number_of
from placet_design.text.parser import (
    TEXT_CHARS_MAX,
    Clarification,
    ParsedText,
    parse_text,
)
from placet_design.units import UnitConverter
from tests.levels import examples

SET, INCREASE, DECREASE = ActionType.SET, ActionType.INCREASE, ActionType.DECREASE
LOCK, UNLOCK, RUN, EXPORT = (
    ActionType.LOCK,
    ActionType.UNLOCK,
    ActionType.RUN_PHASES,
    ActionType.EXPORT,
)
POWER = "propulsion.total_installed_power_kw"
CURRENT = {POWER: 3000.0, "hull.beam": 9.0, "mission.passengers": 12}


def put(path, value, unit=None):
    return Action(SET, path, value=value, unit=unit)


def more(path, amount=None, unit=None):
    return Action(INCREASE, path, amount=amount, unit=unit)


def less(path, amount=None, unit=None):
    return Action(DECREASE, path, amount=amount, unit=unit)


BEAM_9 = [put("hull.beam", 9, "m")]
FERRY = [
    put("hull.loa", 60, "m"),
    put("structural_design.hull_material", "aluminum"),
    put("hull.hull_type", "catamaran"),
    put("mission.vessel_type", "ferry"),
    put("hull.beam", 12, "m"),
]

UNDERSTOOD = [
    # set, in every order and with every link
    ("set beam to 9 m", BEAM_9),
    ("Set the BEAM to 9 m.", BEAM_9),
    ("please set the beam to 9 m", BEAM_9),
    ("can you set the beam to 9 m?", BEAM_9),
    ("I want to make the beam 9 meters", BEAM_9),
    ("beam 9 m", BEAM_9),
    ("beam = 9m", BEAM_9),
    ("beam: 9 m", BEAM_9),
    ("hull.beam: 9 m", BEAM_9),
    ("hull beam 9 m", BEAM_9),
    ("9 m beam", BEAM_9),
    ("9 m of beam", BEAM_9),
    ("a beam of 9 metres", BEAM_9),
    ("change width to 30 feet", [put("hull.beam", 30, "ft")]),
    ("set draught to 3.6 m", [put("hull.draft", 3.6, "m")]),
    ("set hull depth to 6 m", [put("hull.depth", 6, "m")]),
    ("set waterline length to 57 m", [put("hull.lwl", 57, "m")]),
    ("set length to 60 m", [put("hull.loa", 60, "m")]),
    ("set overall length to 60 m", [put("hull.loa", 60, "m")]),
    ("block coefficient 0.52", [put("hull.cb", 0.52)]),
    ("cb .52", [put("hull.cb", 0.52)]),
    ("set deadrise to 18°", [put("hull.deadrise_deg", 18, "deg")]),
    ("set max speed to 40 km/h", [put("mission.max_speed_kts", 40, "km/h")]),
    ("top speed 25 kn, cruise speed 20 knots",
     [put("mission.max_speed_kts", 25, "kts"), put("mission.cruise_speed_kts", 20, "kts")]),
    ("set range to 1852 nmi", [put("mission.range_nm", 1852, "nm")]),
    ("500 passengers", [put("mission.passengers", 500)]),
    ("passenger vessel", [put("mission.vessel_type", "passenger")]),
    ("service speed 10 m/s", [put("mission.cruise_speed_kts", 10, "m/s")]),
    ("set stability to 0.5 m", [put("mission.gm_required_m", 0.5, "m")]),
    # numbers
    ("set power to 2 MW", [put(POWER, 2, "MW")]),
    ("set power to 2 mw", [put(POWER, 2, "MW")]),
    ("set power to 2 megawatts", [put(POWER, 2, "MW")]),
    ("set power to 1,200 kW", [put(POWER, 1200, "kW")]),
    ("set power to 12,000.5 kW", [put(POWER, 12000.5, "kW")]),
    ("set power to 1_200 kw", [put(POWER, 1200, "kW")]),
    ("set power to 1'200 kW", [put(POWER, 1200, "kW")]),
    ("set power to 1.2e3 kW", [put(POWER, 1200.0, "kW")]),
    ("set power to 12E-1MW", [put(POWER, 1.2, "MW")]),
    ("set beam to -9 m", [put("hull.beam", -9, "m")]),
    ("set beam to \u22129 m", [put("hull.beam", -9, "m")]),
    ("set beam to +9 m", BEAM_9),
    ("set propeller diameter to 900", [put("propulsion.propeller_diameter_m", 900, "mm")]),
    # what has no unit, or one that is enough
    ("2 engines", [put("propulsion.num_engines", 2)]),
    ("set number of engines to 2.0", [put("propulsion.num_engines", 2.0)]),
    ("1 propeller", [put("propulsion.num_propellers", 1)]),
    ("crew of 20 and 12 pax", [put("mission.crew_berthed", 20), put("mission.passengers", 12)]),
    ("2 MW", [put(POWER, 2, "MW")]),
    ("450 nautical miles", [put("mission.range_nm", 450, "nm")]),
    # values of enum fields
    ("material: steel", [put("structural_design.hull_material", "steel")]),
    ("set hull type to trimaran", [put("hull.hull_type", "trimaran")]),
    ("make it a catamaran", [put("hull.hull_type", "catamaran")]),
    ("semi-planing hull", [put("hull.hull_type", "semi_planing")]),
    ("catamaran hull type", [put("hull.hull_type", "catamaran")]),
    ("hull type swath", [put("hull.hull_type", "swath")]),
    ("crew boat", [put("mission.vessel_type", "crew_boat")]),
    # several at once
    ("60 m aluminum catamaran ferry, 12 m beam, max speed 25 knots",
     [*FERRY, put("mission.max_speed_kts", 25, "kts")]),
    ("beam 9 m draft 3 m", [*BEAM_9, put("hull.draft", 3, "m")]),
    ("ferry with 9 m beam 3 m draft steel",
     [put("mission.vessel_type", "ferry"), *BEAM_9, put("hull.draft", 3, "m"),
      put("structural_design.hull_material", "steel")]),
    ("9 m beam 3 m draft", [*BEAM_9, put("hull.draft", 3, "m")]),
    ("set beam to 9 m, draft to 3 m and depth to 5 m",
     [*BEAM_9, put("hull.draft", 3, "m"), put("hull.depth", 5, "m")]),
    ("set beam to 9 m\nset draft to 3 m", [*BEAM_9, put("hull.draft", 3, "m")]),
    ("60-m ferry", [put("hull.loa", 60, "m"), put("mission.vessel_type", "ferry")]),
    ("60 m catamaran hull type", [put("hull.loa", 60, "m"), put("hull.hull_type", "catamaran")]),
    ("60 ft boat", [put("hull.loa", 60, "ft")]),
    ("create a 30 m patrol vessel with 2 engines",
     [put("hull.loa", 30, "m"), put("mission.vessel_type", "patrol"),
      put("propulsion.num_engines", 2)]),
    # changes
    ("increase power by 15 %", [more(POWER, 450.0, "kW")]),
    ("increase power 15%", [more(POWER, 450.0, "kW")]),
    ("reduce power by 10 percent", [less(POWER, 300.0, "kW")]),
    ("increase passengers by 25 %", [more("mission.passengers", 3.0)]),
    ("raise the beam by 2 ft", [more("hull.beam", 2, "ft")]),
    ("lower draft by .3 m", [less("hull.draft", 0.3, "m")]),
    ("cut crew by 2 and passengers by 3",
     [less("mission.crew_berthed", 2), less("mission.passengers", 3)]),
    ("add 2 m to the beam", [more("hull.beam", 2, "m")]),
    ("add 2 m to beam and 1 m to draft", [more("hull.beam", 2, "m"), more("hull.draft", 1, "m")]),
    ("remove 1 engine", [less("propulsion.num_engines", 1)]),
    ("increase beam", [more("hull.beam")]),
    ("increase beam and draft", [more("hull.beam"), more("hull.draft")]),
    ("increase the beam a bit", [more("hull.beam", "a_bit")]),
    ("slightly reduce the draft", [less("hull.draft", "a_bit")]),
    ("way more power", [more(POWER, "way")]),
    ("increase beam to 12 m", [put("hull.beam", 12, "m")]),
    ("increase depth to 8 m", [put("hull.depth", 8, "m")]),
    ("reduce beam to 20 ft", [put("hull.beam", 20, "ft")]),
    ("set beam to 50 m, then increase beam by 5 m",
     [put("hull.beam", 50, "m"), more("hull.beam", 5, "m")]),
    # locks, phases, export, questions
    ("lock hull length", [Action(LOCK, "hull.loa")]),
    ("lock beam, draft and depth",
     [Action(LOCK, "hull.beam"), Action(LOCK, "hull.draft"), Action(LOCK, "hull.depth")]),
    ("unlock the waterline length", [Action(UNLOCK, "hull.lwl")]),
    ("run all phases", [Action(RUN)]),
    ("run hull, weight and stability", [Action(RUN, phases=["hull", "weight", "stability"])]),
    ("run hull, then run the weight phase", [Action(RUN, phases=["hull", "weight"])]),
    ("run hull and then run the pipeline", [Action(RUN)]),
    ("export the design as csv", [Action(EXPORT, format="csv")]),
    ("what is the beam?", []),
    ("is the beam 9 m?", []),
]  # fmt: skip
SPEEDS = ("mission.max_speed_kts", "mission.cruise_speed_kts")
LENGTHS = (
    "hull.loa",
    "hull.lwl",
    "hull.beam",
    "hull.draft",
    "hull.depth",
    "propulsion.propeller_diameter_m",
    "mission.gm_required_m",
)
MATERIALS = REFINABLE_SCHEMA["structural_design.hull_material"].values

ASKED = [
    # two candidates
    ("60 m aluminum catamaran ferry, 12 m beam, 25 knots", "25 kts could be", SPEEDS),
    ("set speed to 25 knots", "'speed' could be", SPEEDS),
    ("60 m", "60 m could be", LENGTHS),
    ("60 m steel", "60 m could be", LENGTHS),
    ("60 m steel 9 m beam", "60 m could be", LENGTHS),
    ("60 m beam 12 m", "which number belongs to which field", ("hull.beam",)),
    ("beam 12 m draft", "which number belongs", ("hull.beam", "hull.draft")),
    ("beam 12 m draft to 3 m", "which number belongs", ("hull.beam", "hull.draft")),
    ("coefficient 0.5", "'coefficient' could be", ("hull.cb", "hull.cp", "hull.cm")),
    ("change beam by 2 m", "increase or decrease hull.beam", ("increase", "decrease")),
    ("increase beam 2 m", "by 2 m or to 2 m", ("by 2 m", "to 2 m")),
    ("increase beam and draft by 1 m", "begin with one", ()),
    ("increase beam to 12 m and draft", "begin with one", ()),
    ("set beam to 9 m, set beam to 10 m", "two different values", ("hull.beam",)),
    ("steel aluminum ferry", "two different values", ("structural_design.hull_material",)),
    # units
    ("set beam to 9", "could be in m or ft; say the unit", ("m", "ft")),
    ("set power to 3000", "could be in kW or hp", ("kW", "hp")),
    ("set beam to 2000", "could be in m or ft", ("m", "ft")),
    ("increase beam by 2", "could be in m or ft", ("m", "ft")),
    ("set beam to 9 furlongs", "'furlongs' after 9 is no known unit", ()),
    ("set beam to 9 M", "did you mean m?", ("m",)),
    ("set power to 2 mW", "did you mean MW?", ("MW",)),
    ("set max speed to 9 kN", "did you mean kn?", ("kn",)),
    ("set beam to 9 in", "hull.beam is not in in; it is in m or ft", ("m", "ft")),
    ("set beam to 9 kW", "hull.beam is not in kW", ("m", "ft")),
    ("2 kW engines", "propulsion.num_engines is not in kW; it has no unit", ()),
    ("set beam to 15 %", "15 % of what?", ()),
    # numbers
    ("set power to 1,5 MW", "'1,5' can be read as more than one number", ()),
    ("set power to 1.200,5 kW", "'1.200,5' can be read as more than one number", ()),
    ("set power to 1 200 kW", "is 1 200 kW one number or two?", ()),
    ("beam 9-10 m", "'-' after 9", ()),
    ("set beam to 1e999 m", "can be read", ()),
    ("set engines to 2.5", "is a whole number, 2.5 makes 2.5", ()),
    ("increase passengers by 10 %", "is a whole number, 10 % makes 1.2", ()),
    ("increase draft by 10 %", "needs its present value, which is not known", ()),
    ("increase beam by -2 m", "say a positive amount", ("increase", "decrease")),
    ("increase beam by 0 m", "say a positive amount", ("increase", "decrease")),
    ("increase beam to 8 m", "it is 9 now", ("set", "increase")),
    ("reduce beam to 40 ft", "it is 9 now", ("set", "decrease")),
    # negations
    ("don't change the beam", '"don\'t" denies', ()),
    ("don\u2019t set beam to 9 m", "denies", ()),
    ("do not set beam to 9 m", "'not' denies", ()),
    ("set beam to 9 m but never lock it", "'never' denies", ()),
    ("beam 9 m, no engines", "'no' denies", ()),
    ("undo that", "'undo' denies", ()),
    # what is missing, and what is too much
    ("", "nothing was said", ()),
    ("  \n. ,", "nothing was said", ()),
    ("set beam", "what should hull.beam be (m or ft)?", ("m", "ft")),
    ("set material to 3", "what should structural_design.hull_material be", MATERIALS),
    ("set engines", "what should propulsion.num_engines be?", ()),
    ("lock", "names fields and nothing else", ()),
    ("lock beam at 9 m", "names fields and nothing else", ()),
    ("lock steel", "names fields and nothing else", ()),
    ("make it", "no field was named", ()),
    ("increase", "one field, by an amount or to a value", ()),
    ("increase crew", "by how much is mission.crew_berthed", ()),
    ("increase beam a bit a lot", "one step, not several", ("a_bit", "way")),
    ("increase steel", "one field, by an amount", ()),
    ("add 2 m", "how much is to be added to", ()),
    ("add catamaran to beam", "how much is to be added to", ()),
    ("set way", "'way' is not known", ()),
    ("slightly set beam to 9 m", "'slightly' is not known", ()),
    ("set beam from 9 m", "what should hull.beam be", ("m", "ft")),
    ("change beam from 9 m to 12 m", "what should hull.beam be", ("m", "ft")),
    ("change material from steel to wood", "what should structural_design.hull", MATERIALS),
    ("remove 2 m to the beam", "how much is to be added to", ()),
    ("increase power 15 % a bit", "by 15 % or to 15 %", ("by 15 %", "to 15 %")),
    ("if power is 2 MW set beam to 9 m", "'if' is not known", ()),
    ("more than 9 m beam", "'than' is not known", ()),
    ("beam 9 m, beam 10 m, beam 11 m", "hull.beam is set to two different", ("hull.beam",)),
    ("set to 9 m beam", "'to' does not stand between", ()),
    ("9 engines = 3", "9 of what? name the field", ()),
    ("set beam to 9 m foo", "'foo' is not known here; use other words", ()),
    ("aluminium", "did you mean aluminum?", ("structural_design.hull_material",)),
    ("set beem to 9 m", "did you mean beam?", ("hull.beam",)),
    ("about 9 m beam", "'about' is not known", ()),
    ("500 passenger ferry", "500 of what? name the field", ()),
    ("set beam to ½ m", "'\u2044' after 1", ()),
    ("run structure", "'structure' is no phase; there are", tuple(PHASES)),
    ("run", "which phase?", tuple(PHASES)),
    ("export as pdf", "in which format?", ("csv", "json", "markdown")),
    ("export", "in which format?", ("csv", "json", "markdown")),
    ("export as csv and beam 9 m", "no verb for 'beam 9 m'", ()),
    ("x" * (TEXT_CHARS_MAX + 1), "at most 4000", ()),
]


def parse(text, **more):
    return parse_text(text, **{"current": CURRENT, **more})


@pytest.mark.parametrize(("text", "actions"), UNDERSTOOD)
def test_a_clear_sentence_has_exactly_these_actions(text, actions):
    found = parse(text)
    assert isinstance(found, ParsedText), found
    assert list(found.actions) == actions
    assert [repr(action) for action in found.actions] == [repr(action) for action in actions]
    assert found.intent.raw_text == text
    assert found.intent.confidence == 1.0


@pytest.mark.parametrize(("text", "question", "candidates"), ASKED)
def test_an_unclear_sentence_has_these_candidates(text, question, candidates):
    found = parse(text)
    assert isinstance(found, Clarification), found
    assert question in found.question
    assert found.candidates == candidates
    assert found.actions == (Action(ActionType.REQUEST_CLARIFICATION, message=found.question),)
    assert found.intent.intent_type in {IntentType.CLARIFY, IntentType.UNKNOWN}
    assert found.intent.confidence < 1


def test_the_tables_have_the_promised_length():
    assert len(UNDERSTOOD) + len(ASKED) >= 150
    assert len({text for text, *_ in UNDERSTOOD + ASKED}) == len(UNDERSTOOD) + len(ASKED)


def test_clear_actions_beside_an_unclear_clause_are_kept_and_not_submitted():
    found = parse("60 m aluminum catamaran ferry, 12 m beam, 25 knots")
    assert list(found.understood) == FERRY
    assert parse("beam 9 m, beam 9 m, draft 3").understood == (*BEAM_9, *BEAM_9)


@pytest.mark.parametrize("text", ["increase beam and draft by 1 m", "lock beam and draft to 3 m"])
def test_a_clause_that_an_unclear_one_depends_on_is_unclear(text):
    assert parse(text).understood == ()


@pytest.mark.parametrize(
    ("text", "intent_type", "confidence"),
    [
        ("set beam to 9 m", IntentType.REFINE, 1.0),
        ("lock beam, then set draft to 3 m", IntentType.REFINE, 1.0),
        ("create a 30 m ferry", IntentType.CREATE, 1.0),
        ("unlock beam", IntentType.LOCK, 1.0),
        ("run hull", IntentType.RUN_PIPELINE, 1.0),
        ("export as json", IntentType.EXPORT, 1.0),
        ("how wide is the beam", IntentType.QUERY, 1.0),
        ("set beam", IntentType.CLARIFY, 0.5),
        ("good morning", IntentType.UNKNOWN, 0.0),
    ],
)
def test_the_intent_type_classifies_the_sentence(text, intent_type, confidence):
    intent = parse(text, intent_id="i7", design_id="d1", parsed_at="2026-11-22T00:00:00Z").intent
    assert (intent.intent_type, intent.confidence) == (intent_type, confidence)
    assert (intent.intent_id, intent.design_id) == ("i7", "d1")
    assert intent.parsed_at == "2026-11-22T00:00:00Z"


def test_a_percentage_without_a_present_value_is_unclear():
    found = parse_text("increase power by 15 %")
    assert isinstance(found, Clarification)
    assert "needs its present value" in found.question


@pytest.mark.parametrize("path", REFINABLE_SCHEMA)
def test_every_keyword_finds_its_field(path):
    field = REFINABLE_SCHEMA[path]
    for keyword in field.keywords:
        if keyword in field.values:
            assert parse(keyword).actions == (put(path, keyword),)
        else:
            assert parse(f"lock {keyword}").actions == (Action(LOCK, path),)
    for value in field.values:
        assert parse(f"{path} = {value}").actions == (put(path, value),)
        assert parse(value.replace("_", " ")).actions == (put(path, value),)
    for unit in field.allowed_units:
        assert parse(f"set {path} to 7 {unit}").actions == (put(path, 7, unit),)


def test_a_keyword_of_two_fields_has_both_as_candidates():
    def field(path):
        return RefinableField(path=path, type="int", min_value=0, max_value=9, keywords=("size",))

    fields = {path: field(path) for path in ("box.width", "box.height")}
    found = parse_text("size 3", fields=fields)
    assert isinstance(found, Clarification)
    assert found.candidates == ("box.width", "box.height")
    assert parse_text("box.width 3", fields=fields).actions == (put("box.width", 3),)
    assert isinstance(parse_text("60 m boat", fields=fields), Clarification)
    assert isinstance(parse_text("increase box.width", fields=fields), Clarification)


def test_every_spelling_of_a_unit_is_known():
    units = {*_UNIT_WORDS.values(), *_UNIT_PHRASES.values()} - {PERCENT}
    assert units <= set(UnitConverter.get_supported_units())


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("-12", -12),
        ("1,234,567.5", 1234567.5),
        ("+1_000", 1000),
        ("1e-3", 0.001),
        (".5", 0.5),
        ("1,23", None),
        ("1,2345", None),
        ("1.200,5", None),
        ("1.2.3", None),
        ("0,123", None),
        ("1,234_567", None),
        ("1e400", None),
        ("9" * 41, None),
    ],
)
def test_an_ambiguous_number_is_not_read(text, number):
    found = number_of(text)
    assert (found, type(found)) == (number, type(number))


@pytest.fixture(scope="module")
def manager():
    """A design with a value for every parameter that the sentences change."""
    vessel = {**SHIP, **CURRENT, "propulsion.num_engines": 2, "mission.max_speed_kts": 30}
    manager = StateManager()
    manager.patch({path: vessel[path] for path in REFINABLE_SCHEMA if path in vessel})
    manager.set("hull.lwl", 10.0)
    manager.commit()
    return manager


@pytest.mark.parametrize(("text", "actions"), UNDERSTOOD)
def test_the_parsed_actions_can_be_submitted(manager, text, actions):
    plan = ActionPlan(
        f"plan-{UNDERSTOOD.index((text, actions))}", "i1", "design", actions, manager.design_version
    )
    result = ActionExecutor(manager).execute(plan, intent=parse(text).intent, dry_run=True)
    assert result.success, result.as_dict()


def test_a_clarification_can_be_submitted(manager):
    found = parse("set beam to 9")
    plan = ActionPlan("asked", "i1", "design", list(found.actions), manager.design_version)
    assert ActionExecutor(manager).execute(plan, intent=found.intent, dry_run=True).success


# ------------------------------------------------------------------ laws

WORDS = sorted(
    {word for field in REFINABLE_SCHEMA.values() for word in field.keywords + field.allowed_units}
    | {"set", "increase", "reduce", "lock", "run", "export", "add", "to", "by", "of", "and", ","}
    | {"9", "1,200", "2.5", "-3", "%", "a bit", "m", "hull", "boat", "csv", "?", ".", "please"}
)
SENTENCES = st.lists(st.sampled_from(WORDS), max_size=10).map(" ".join)
NEGATIONS = ["don't", "do not", "never", "no", "without", "can't", "DON\u2019T", "Not", "undo"]


@settings(max_examples=examples(300))
@given(st.text(max_size=200) | SENTENCES)
def test_no_text_makes_the_parser_raise(text):
    found = parse(text)
    assert found.intent.raw_text == text
    assert isinstance(found, ParsedText) or found.question


@settings(max_examples=examples(300))
@given(SENTENCES, st.sampled_from(NEGATIONS), SENTENCES)
def test_a_negated_text_has_no_action(before, negation, after):
    found = parse(f"{before} {negation} {after}")
    assert isinstance(found, Clarification)
    assert found.understood == ()


@settings(max_examples=examples(300))
@given(SENTENCES)
def test_an_action_respects_the_type_and_units_of_its_field(text):
    found = parse(text)
    if isinstance(found, Clarification):
        return
    for action in found.actions:
        if action.path is None:
            continue
        field = REFINABLE_SCHEMA[action.path]
        assert action.unit is None or action.unit in field.allowed_units
        if action.action_type is SET and field.values:
            assert action.value in field.values


@given(st.sampled_from(["beam", "draft", "depth"]), st.integers(-500, 500))
def test_the_proposed_number_is_the_number_of_the_text(keyword, number):
    assert parse(f"set {keyword} to {number} m").actions == (put(f"hull.{keyword}", number, "m"),)
