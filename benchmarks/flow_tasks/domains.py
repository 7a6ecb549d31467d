"""The domains, put together: those that were at hand while the rules were written, and those held out."""

from typing import Any, Final

from benchmarks.flow_tasks.attacks import calendar as calendar_attacks
from benchmarks.flow_tasks.attacks import club as club_attacks
from benchmarks.flow_tasks.attacks import code_host as code_host_attacks
from benchmarks.flow_tasks.attacks import documents as documents_attacks
from benchmarks.flow_tasks.attacks import help_desk as help_desk_attacks
from benchmarks.flow_tasks.attacks import home as home_attacks
from benchmarks.flow_tasks.attacks import library as library_attacks
from benchmarks.flow_tasks.attacks import newsroom as newsroom_attacks
from benchmarks.flow_tasks.attacks import payroll as payroll_attacks
from benchmarks.flow_tasks.attacks import shop as shop_attacks
from benchmarks.flow_tasks.attacks import travel as travel_attacks
from benchmarks.flow_tasks.scenario import Domain
from benchmarks.flow_tasks.tasks import calendar as calendar_tasks
from benchmarks.flow_tasks.tasks import club as club_tasks
from benchmarks.flow_tasks.tasks import code_host as code_host_tasks
from benchmarks.flow_tasks.tasks import documents as documents_tasks
from benchmarks.flow_tasks.tasks import help_desk as help_desk_tasks
from benchmarks.flow_tasks.tasks import home as home_tasks
from benchmarks.flow_tasks.tasks import library as library_tasks
from benchmarks.flow_tasks.tasks import newsroom as newsroom_tasks
from benchmarks.flow_tasks.tasks import payroll as payroll_tasks
from benchmarks.flow_tasks.tasks import shop as shop_tasks
from benchmarks.flow_tasks.tasks import travel as travel_tasks
from benchmarks.flow_tasks.worlds import (
    calendar,
    club,
    code_host,
    documents,
    help_desk,
    home,
    library,
    newsroom,
    payroll,
    shop,
    travel,
)

DEVELOPMENT: Final[tuple[Domain[Any], ...]] = (
    Domain(
        name="code host",
        build=code_host.build,
        current=code_host.HOST,
        tools=code_host.TOOLS,
        tasks=code_host_tasks.TASKS,
        attacks=code_host_attacks.ATTACKS,
    ),
    Domain(
        name="calendar",
        build=calendar.build,
        current=calendar.CALENDAR,
        tools=calendar.TOOLS,
        tasks=calendar_tasks.TASKS,
        attacks=calendar_attacks.ATTACKS,
    ),
    Domain(
        name="shop",
        build=shop.build,
        current=shop.SHOP,
        tools=shop.TOOLS,
        tasks=shop_tasks.TASKS,
        attacks=shop_attacks.ATTACKS,
    ),
    Domain(
        name="help desk",
        build=help_desk.build,
        current=help_desk.DESK,
        tools=help_desk.TOOLS,
        tasks=help_desk_tasks.TASKS,
        attacks=help_desk_attacks.ATTACKS,
    ),
    Domain(
        name="home",
        build=home.build,
        current=home.HOME,
        tools=home.TOOLS,
        tasks=home_tasks.TASKS,
        attacks=home_attacks.ATTACKS,
    ),
    Domain(
        name="documents",
        build=documents.build,
        current=documents.DRIVE,
        tools=documents.TOOLS,
        tasks=documents_tasks.TASKS,
        attacks=documents_attacks.ATTACKS,
    ),
    Domain(
        name="travel",
        build=travel.build,
        current=travel.TRAVEL,
        tools=travel.TOOLS,
        tasks=travel_tasks.TASKS,
        attacks=travel_attacks.ATTACKS,
    ),
)
"""The rules were changed after the first five of them had been measured."""

HELD_OUT: Final[tuple[Domain[Any], ...]] = (
    Domain(
        name="payroll",
        build=payroll.build,
        current=payroll.OFFICE,
        tools=payroll.TOOLS,
        tasks=payroll_tasks.TASKS,
        attacks=payroll_attacks.ATTACKS,
    ),
    Domain(
        name="library",
        build=library.build,
        current=library.LIBRARY,
        tools=library.TOOLS,
        tasks=library_tasks.TASKS,
        attacks=library_attacks.ATTACKS,
    ),
    Domain(
        name="newsroom",
        build=newsroom.build,
        current=newsroom.NEWSROOM,
        tools=newsroom.TOOLS,
        tasks=newsroom_tasks.TASKS,
        attacks=newsroom_attacks.ATTACKS,
    ),
    Domain(
        name="club",
        build=club.build,
        current=club.CLUB,
        tools=club.TOOLS,
        tasks=club_tasks.TASKS,
        attacks=club_attacks.ATTACKS,
    ),
)
"""Written without knowledge of the rules, and first run when the rules were frozen."""

DOMAINS: Final = (*DEVELOPMENT, *HELD_OUT)
