"""The turns that `placet chat --json` prints."""

import json


def turns(outcome):
    assert outcome.out, outcome.err
    return [json.loads(line) for line in outcome.out.splitlines()]
