"""Search good settings: Optuna proposes, a sweep runs the proposals, ask and tell.

`python search.py` runs it. The pool of processes stays open from one round to the next.
"""

from concurrent.futures import ProcessPoolExecutor

import optuna

from placet.lab import Scenario, run_scenarios


def search(rounds: int = 4, proposals: int = 4, *, jobs: int = 2) -> optuna.Study:
    """Find the step and the quota with the fewest refusals for each admitted intent."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    town = Scenario.load("town").with_agents(20).with_values(ticks=20)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1))
    with ProcessPoolExecutor(jobs) as executor:
        for _ in range(rounds):
            trials = [study.ask() for _ in range(proposals)]
            rows = [
                {
                    "settings.max_step": trial.suggest_float("settings.max_step", 0.5, 4.0),
                    "quotas.Speak.rate": trial.suggest_float("quotas.Speak.rate", 0.05, 0.5),
                }
                for trial in trials
            ]
            scenarios = Scenario.from_dataframe(rows, base=town)
            results = run_scenarios(scenarios, replications=2, executor=executor)
            refused, admitted = results.means("refused"), results.means("admitted")
            for trial, lost, done in zip(trials, refused, admitted, strict=True):
                study.tell(trial, lost / done)
    return study


if __name__ == "__main__":
    best = search().best_trial
    print(f"{best.value:.3f} refusals for each admitted intent, with {best.params}")
