"""The grammar of the query of the list of runs, as a table."""

import pytest

from placet.server.runs.filters import QUERY_CHARS_MAX, Filtered, FilterError, filter_of

RUN = Filtered(
    texts={
        "name": ["sir-3.db"],
        "scenario": ["sir", "sir"],
        "domain": ["sir"],
        "tag": ["good", "very late"],
        "note": ['the one with "wages" and 50 % more'],
        "status": ["finished"],
    },
    numbers={"seed": 3, "ticks": 100, "agents": None, "admitted": 5, "refused": 0, "records": 9},
    settings={
        "settings.beta": 0.3,
        "settings.links": 1500,
        "settings.mode": "Fast",
        "settings.is_open": True,
        "settings.names": ["a", "b"],
        "agents.folk.count": 20,
        "agents.child.count": 5,
    },
)
KEYS = [*RUN.settings, "settings.gamma"]

ADMITTED = [
    ("", True),
    ("   ", True),
    ("sir", True),
    ("SIR-3", True),
    ("town", False),
    ("wages", True),
    ("good", True),
    ("fini", True),
    ("sir town", False),
    ("sir -town", True),
    ("-sir", False),
    ('"wages and"', False),
    (r'"with \"wages\""', True),
    ('"50 % more"', True),
    ("tag:good", True),
    ("tag:GOOD", True),
    ("tag:goo", False),
    ('tag:"very late"', True),
    ("-tag:bad", True),
    ("-tag:good", False),
    ("status:finished", True),
    ("status:killed", False),
    ("-status:killed", True),
    ("name:3.db", True),
    ("scenario:sir domain:sir note:one", True),
    ("beta=0.3", True),
    ("beta=0.30", True),
    ("beta=3e-1", True),
    ("settings.beta=0.3", True),
    ("beta=0.4", False),
    ("beta!=0.4", True),
    ("beta!=0.3", False),
    ("-beta=0.4", True),
    ("beta<0.3", False),
    ("beta<=0.3", True),
    ("beta>0.29", True),
    ("beta>=0.31", False),
    ("links=1500", True),
    ("links=1500.0", True),
    ("mode=fast", True),
    ('mode="fast"', True),
    ("mode>1", False),
    ("is_open=true", True),
    ("is_open=1", False),
    ("is_open=false", False),
    ("names=a", False),
    ("gamma=1", False),
    ("gamma!=1", False),  # the run has none
    ("-gamma=1", True),
    ("count=5", True),  # of either cohort
    ("folk.count=5", False),
    ("folk.count=20", True),
    ("count!=5", False),
    ("seed=3 ticks>=100 refused=0", True),
    ("refused>0", False),
    ("agents=5", False),  # not counted yet
    ("agents!=5", False),
    ("beta=0.3 tag:good", True),
    ("beta=0.3 tag:bad", False),
]


@pytest.mark.parametrize(("query", "is_admitted"), ADMITTED)
def test_a_query_admits_the_run_of_the_table(query, is_admitted):
    assert filter_of(query, KEYS)(RUN) is is_admitted


REFUSED = [
    ("betta=1", "no run has a setting 'betta'; did you mean 'beta'"),
    ("tga:good", "did you mean 'tag'"),
    ("http://x", "in quotation marks"),
    ("status:finish", "did you mean 'finished'"),
    ("tag=good", "write tag:good"),
    ("tag:", "has no value"),
    ("beta=", "has no value"),
    ("-", "has no value"),
    ('""', "has no value"),
    ("beta<many", "expected a number after beta<"),
    ('"open', "quotation mark"),
    ('a"b', "quotation mark"),
    ("x" * (QUERY_CHARS_MAX + 1), "at most"),
]


@pytest.mark.parametrize(("query", "message"), REFUSED)
def test_a_query_of_the_table_is_refused_with_its_reason(query, message):
    with pytest.raises(FilterError) as raised:
        filter_of(query, KEYS)
    assert message in str(raised.value)


def test_a_key_may_be_unknown_while_logs_are_unread():
    assert filter_of("betta=1", KEYS, is_complete=False)(RUN) is False
