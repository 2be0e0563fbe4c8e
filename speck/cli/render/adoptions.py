"""The adoption of jobs of a lost store as lines."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from speck.cli.render.values import Data


def adoption_lines(plan: Data) -> Iterator[Text]:
    """The heading, the copies to adopt, the refusals, and the jobs that are not adopted."""
    counts = f"{len(plan['adopts'])} to adopt, {len(plan['refuses'])} not adoptable"
    yield Text(f"{plan['composition']} (from revision {plan['base_revision']}): {counts}", style="bold")
    width = max((len(each["job"]) for each in plan["adopts"]), default=0)
    for each in plan["adopts"]:
        copy = f"attempt {each['number']} at {each['address']}, of store {each['owner']}"
        yield Text(f"  + adopt  {each['job']:<{width}}  {copy}", style="green")
        yield Text(f"      session {each['session']} at {each['broker']}", style="dim")
    if plan["adopts"]:
        known = "addresses, topics, code and arguments are those of the running copies"
        yield Text(f"  {known}; labels, upgrade, restart and site come from the file", style="dim")
    for each in plan["refuses"]:
        reason = f"{each['reason']} ({each['remedy']})"
        yield Text(f"  {each['job']} cannot be adopted: {reason}", style="bold red")
    for name in plan["absent"]:
        yield Text(f"  {name} is not running; an apply starts it", style="dim")
    for name in plan["own"]:
        yield Text(f"  {name} already belongs to this store", style="dim")
