"""`placet kinds` prints what kinds of programs disclose."""

from placet.cli.commands.kinds import kinds


def test_kinds_print_what_they_disclose(capsys):
    kinds(domain="program")
    assert "discloses: Earlier versions of all functions" in capsys.readouterr().out
