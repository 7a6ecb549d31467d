"""The linter of definitions: poison, secrets, quality, limits of providers and prices; open `linter.py` first."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.mcp.lint.baseline import Baseline as Baseline
    from spindle.mcp.lint.findings import SEVERITIES as SEVERITIES
    from spindle.mcp.lint.findings import Finding as Finding
    from spindle.mcp.lint.findings import Rule as Rule
    from spindle.mcp.lint.linter import LintReport as LintReport
    from spindle.mcp.lint.linter import lint_poison as lint_poison
    from spindle.mcp.lint.linter import lint_registry as lint_registry
    from spindle.mcp.lint.linter import lint_subjects as lint_subjects
    from spindle.mcp.lint.memory import LintMemory as LintMemory
    from spindle.mcp.lint.provider_checks import PriceTable as PriceTable
    from spindle.mcp.lint.rules import RULES as RULES
    from spindle.mcp.lint.sarif import to_sarif as to_sarif
    from spindle.mcp.lint.subjects import Subject as Subject
    from spindle.mcp.lint.subjects import build_feature_subjects as build_feature_subjects
    from spindle.mcp.lint.subjects import build_subjects as build_subjects
    from spindle.mcp.lint.watch import PoisonWatch as PoisonWatch
    from spindle.mcp.lint.watch import watch_poison as watch_poison
else:
    __getattr__, __dir__ = open_door(__name__)
