"""Loads YAML of plain values, bounded after its aliases are expanded; needs a package of an extra."""

from typing import Any

from spindle.json_types import is_array, is_list_or_tuple
from spindle.text import to_line

_TIMESTAMP = "tag:yaml.org,2002:timestamp"


def load_yaml(text: str, *, max_values: int, keeps_dates: bool = True) -> Any:
    """Return the value of a document, `None` for an empty one; without `keeps_dates`, dates stay text.

    Raises:
        ValueError: The text is not YAML of plain values, or has too many of them.
        ImportError: The package is not installed; callers name the extra.
    """
    import yaml  # noqa: PLC0415 - an extra

    untyped: Any = yaml
    loader = getattr(untyped, "CSafeLoader", untyped.SafeLoader)(text)
    if not keeps_dates:
        loader.yaml_implicit_resolvers = {
            first: [rule for rule in rules if rule[0] != _TIMESTAMP]
            for first, rules in loader.yaml_implicit_resolvers.items()
        }
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _check_size(node, max_values)
        return loader.construct_document(node)
    except (untyped.YAMLError, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(to_line(str(error)) or type(error).__name__) from error
    finally:
        loader.dispose()


def _check_size(root: object, max_values: int) -> None:
    """Reject a document with too many nodes after alias expansion; each node is visited once."""
    sizes: dict[int, int] = {}

    def size(node: object, above: frozenset[int]) -> int:
        if id(node) in above:
            raise ValueError("an alias refers to a node that contains it")
        if id(node) not in sizes:
            inside = above | {id(node)}
            sizes[id(node)] = 1 + sum(size(child, inside) for child in _children(node))
        return sizes[id(node)]

    if size(root, frozenset()) > max_values:
        raise ValueError(f"it has more than {max_values} values after alias expansion")


def _children(node: Any) -> list[object]:
    inside: object = node.value
    if not is_array(inside):
        return []
    return [part for child in inside for part in (child if is_list_or_tuple(child) else (child,))]
