"""Write the report of a run or of a study."""

from pathlib import Path

from placet.lab.reporting.page import MARK, render
from placet.lab.reporting.run_report import run_page
from placet.lab.reporting.study_report import study_page
from placet.lab.stores import Store, log_of
from placet.scenarios.portrayals import given_portrayals
from placet.schemas.keywords import explain_keywords
from placet.stores.url import file_of
from placet.sweeps.errors import LabError
from placet.sweeps.files import replaced_whole
from placet.sweeps.results import Results


@explain_keywords
def report(
    source: Store,
    to: str | Path | None = None,
    *,
    collected: str | Path | None = None,
    portrayal: str | Path | None = None,
) -> Path:
    """Write a report as one HTML file that opens without a network, and return its path.

    Args:
        source: Path or URL of a log, a `placet.Log`, or the folder of a study. It is only read, and
            may be written meanwhile.
        to: Path of the report; None is `NAME-report.html` in the current folder. A report there is
            replaced, another file is not.
        collected: Folder of the rows that a collector wrote; None is `STORE.collected`, if it is
            there.
        portrayal: Scenario whose `[portrayal]` names the values of fields: a name, or the path of a
            file. None is the bundled one that the log names.

    Raises:
        ScenarioError: The scenario of the portrayal does not exist, or has none.
        LabError: The source is no log and no study, another file has the name, or the report cannot
            be written.
        StoreError: The log cannot be read, or is empty.
    """
    if isinstance(source, str | Path) and Path(source).is_dir():
        if portrayal is not None:
            raise LabError(
                "a portrayal is of the figures of a run, and this is a study; leave it out"
            )
        folder = Path(source)
        page, stem = study_page(folder, Results.load(folder)), folder.resolve().name
    else:
        log = log_of(source)
        portrayals = None if portrayal is None else given_portrayals(portrayal)
        page = run_page(log, None if collected is None else Path(collected), portrayals)
        path = file_of(log)
        stem = page.title if path is None else path.stem
    target = Path(to) if to is not None else Path(f"{stem}-report.html")
    require_replaceable(target)
    with replaced_whole(target) as draft:
        draft.write_text(render(page), encoding="utf-8")
    return target


def require_replaceable(target: Path) -> None:
    """Check that a report may be written to a path: nothing is there, or a report.

    Raises:
        LabError: Another file or a folder is there.
    """
    if target.exists() and not (target.is_file() and MARK.encode() in target.read_bytes()[:200]):
        raise LabError(f"{target} exists and is no report of placet: give another path")
