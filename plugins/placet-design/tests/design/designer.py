"""A state manager with short methods that submit plans, and the vessel of check B."""

from itertools import count

from placet_design import (
    Action,
    ActionExecutor,
    ActionPlan,
    ActionPlanValidator,
    ActionType,
    Design,
    StateManager,
)

VESSEL = {
    "hull.loa": 60.0,
    "hull.lwl": 57.0,
    "hull.beam": 12.0,
    "hull.draft": 3.6,
    "hull.depth": 6.0,
    "hull.cb": 0.52,
    "hull.cm": 0.88,
    "propulsion.total_installed_power_kw": 3000.0,
    "propulsion.num_propellers": 2,
    "propulsion.propeller_diameter_m": 2.4,
    "mission.max_speed_kts": 15.0,
    "mission.cruise_speed_kts": 13.0,
    "mission.range_nm": 3000.0,
    "mission.crew_berthed": 20,
    "mission.passengers": 12,
}


class Designer:
    """A state manager with an executor and a validator of one agent's."""

    def __init__(self, manager=None, *, agent_id="planner", **design):
        self.manager = manager or StateManager(design=Design(**design))
        self.executor = ActionExecutor(self.manager, agent_id=agent_id)
        self.validator = ActionPlanValidator(agent_id=agent_id)
        self._numbers = count(self.manager.kernel.record_count)

    def plan(self, *actions, version=None, plan_id=None):
        """Make a plan based on the current version."""
        return ActionPlan(
            plan_id or f"plan-{next(self._numbers)}",
            "intent",
            "design",
            list(actions),
            self.manager.design_version if version is None else version,
            "2026-11-22T02:00:00Z",
        )

    def execute(self, *actions, **options):
        """Execute actions as one plan."""
        return self.executor.execute(self.plan(*actions, **options))

    def dry_run(self, *actions):
        """Dry-run actions as one plan."""
        return self.executor.execute(self.plan(*actions), dry_run=True)

    def validate(self, *actions):
        """Validate actions as one plan."""
        return self.validator.validate(self.plan(*actions), self.manager)

    def codes(self, *actions):
        """Return the codes of the rejections of a plan."""
        return [rejection.code for rejection in self.execute(*actions).rejections]

    def other(self, agent_id):
        """Return a designer of the same design for another agent."""
        return Designer(self.manager, agent_id=agent_id)


def put(path, value, unit=None):
    """Make a SET."""
    return Action(ActionType.SET, path=path, value=value, unit=unit)


def more(path, amount=None, unit=None):
    """Make an INCREASE."""
    return Action(ActionType.INCREASE, path=path, amount=amount, unit=unit)


def less(path, amount=None, unit=None):
    """Make a DECREASE."""
    return Action(ActionType.DECREASE, path=path, amount=amount, unit=unit)


def lock(path, message=None):
    """Make a LOCK."""
    return Action(ActionType.LOCK, path=path, message=message)


def unlock(path):
    """Make an UNLOCK."""
    return Action(ActionType.UNLOCK, path=path)
