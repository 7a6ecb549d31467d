"""`python -m benchmarks.flow_tasks`: replay the tasks and attacks of all domains, and print the table.

With `-v`, print every needless question, every question that was due but not asked, and every attack that passed.
With `--held-out`, replay only the domains that were written without knowledge of the rules.
"""

import sys
from functools import partial

import anyio

from benchmarks.flow_tasks.domains import DOMAINS, HELD_OUT
from benchmarks.flow_tasks.report import list_findings, measure_all, render_table


def main(argv: list[str]) -> int:
    """Print the table; exit with 1 if an attack passed the flow policy or a task failed."""
    domains = HELD_OUT if "--held-out" in argv else DOMAINS
    reports = anyio.run(partial(measure_all, domains=domains))
    print(render_table(reports))
    own = [each for each in reports if each.policy == "values"]
    if "-v" in argv:
        print(*(line for each in own for line in list_findings(each)), sep="\n")
    return int(any(each.passed or each.failed for each in own))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
