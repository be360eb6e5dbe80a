"""Situational questions: a question of another task, put by someone for a reason (paper, section 3.1).

A persona and a motivation clause stand before a question whose answer is the geometry's. The words here are
plain; a teacher may rewrite them (`data_prep.monosr.rewriting`).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache

from data_prep.monosr.options import TASKS, Options
from data_prep.monosr.questions.drafts import Draft
from data_prep.monosr.questions.facts import Facts

SCENARIOS = ("compliance", "planning", "safety", "navigation")
"""The four of the paper's table 5."""
PERSONAS = {
    "indoor": {
        "compliance": ("a building inspector", "an auditor of workplace rules", "an accessibility officer"),
        "planning": ("an interior planner", "a moving-company foreman", "a facility manager"),
        "safety": ("a safety inspector", "a fire-prevention officer", "a nurse on a home visit"),
        "navigation": ("a roboticist", "an operator of a delivery robot", "a mobility trainer"),
    },
    "outdoor": {
        "compliance": ("a traffic warden", "a supervisor of road works", "a parking inspector"),
        "planning": ("a road planner", "a logistics planner", "an organiser of a street fair"),
        "safety": ("a road-safety officer", "a driving instructor", "a site safety engineer"),
        "navigation": ("an engineer of self-driving cars", "an operator of a delivery robot", "a dispatcher"),
    },
    "object_centric": {
        "compliance": ("a quality inspector", "a customs officer", "an auditor of packaging rules"),
        "planning": ("a packing planner", "a shop fitter", "a warehouse planner"),
        "safety": ("a laboratory safety officer", "a child-safety tester", "a safety inspector"),
        "navigation": ("an engineer of a robot arm", "a roboticist", "an operator of a picking robot"),
    },
}
"""Domain -> scenario -> who asks."""
_PLACES = ("sr", "pr", "og")
MOTIVES = {
    "compliance": {
        "place": "checks that everything stands where the approved layout has it",
        "measure": "compares this with the figures in the rule book",
        "view": "verifies that required sight lines are kept",
    },
    "planning": {
        "place": "works out the order in which things here are to be moved",
        "measure": "plans from a desk what can be placed here",
        "view": "plans where to put a sign so that it is noticed",
    },
    "safety": {
        "place": "looks for things that someone could run into",
        "measure": "judges whether one can move here safely",
        "view": "looks for spots that are hidden from someone keeping watch",
    },
    "navigation": {
        "place": "works out a way past what stands here",
        "measure": "plans a movement that touches nothing",
        "view": "needs to know what will be seen from the next stop",
    },
}
"""Scenario -> what the question is for, by what is asked."""
FORMS = ("As {persona} who {motive}, answer this: {question}", "{Persona} {motive} and asks: {question}")


@lru_cache(maxsize=8)
def _once(options: Options) -> Options:
    return replace(options, per_format=1)


def _motive(task: str) -> str:
    return "place" if task in _PLACES else "view" if task == "oj" else "measure"


def situational(facts: Facts, makers: Mapping[str, Callable[[Facts], Iterator[Draft]]]) -> Iterator[Draft]:
    """Up to `options.situational` questions of different tasks of the domain, each with a scenario."""
    rng = facts.rng("situational")
    tasks = [task for task in TASKS[facts.scene.domain] if task in facts.options.tasks]
    options, facts.salt = facts.options, "situational/"  # not the questions that are asked plainly
    facts.options = _once(options)
    made = 0
    for task in rng.sample(tasks, len(tasks)):
        if made == options.situational:
            break
        drafts = list(makers[task](facts))
        if drafts:
            draft = rng.choice(drafts)
            scenario = rng.choice(SCENARIOS)
            persona = rng.choice(PERSONAS[facts.scene.domain][scenario])
            motive = MOTIVES[scenario][_motive(task)]
            words = {"persona": persona, "Persona": persona[0].upper() + persona[1:], "motive": motive}
            text = rng.choice(FORMS).format(question=draft.question, **words)
            more = {**draft.more, "base": task, "scenario": scenario}
            yield replace(draft, task="situational", question=text, more=more)
            made += 1
    facts.options, facts.salt = options, ""
