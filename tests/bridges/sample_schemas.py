"""Schemas of every kind that tools have, and arguments that satisfy them."""

from random import Random
from typing import Any

from hypothesis import strategies as st

from tests.bridges.loss_walk import is_array, is_object

JSON = dict[str, Any]
NAMES: tuple[str, ...] = ("a", "b", "c", "d e", "f-g", "$h")


def notes() -> st.SearchStrategy[JSON]:
    return st.fixed_dictionaries({}, optional={"description": st.sampled_from(["One.", "Two."]), "title": st.just("T")})


def strings() -> st.SearchStrategy[JSON]:
    return st.fixed_dictionaries(
        {"type": st.just("string")},
        optional={
            "minLength": st.integers(0, 2),
            "maxLength": st.integers(3, 9),
            "pattern": st.just("^[a-z]*$"),
            "format": st.sampled_from(["uri", "date-time", "uuid"]),
            "default": st.just("aaa"),
        },
    )


def numbers() -> st.SearchStrategy[JSON]:
    return st.fixed_dictionaries(
        {"type": st.sampled_from(["integer", "number"])},
        optional={
            "minimum": st.integers(-3, 3),
            "exclusiveMaximum": st.integers(8, 12),
            "exclusiveMinimum": st.integers(-3, 3),
            "multipleOf": st.just(1),
            "default": st.just(5),
        },
    )


def choices() -> st.SearchStrategy[JSON]:
    return st.one_of(
        st.lists(st.sampled_from(["x", "y", "", "z"]), min_size=1, max_size=3, unique=True).map(lambda v: {"enum": v}),
        st.lists(st.sampled_from(["x", 1, None, 2.5]), min_size=1, max_size=3, unique=True).map(lambda v: {"enum": v}),
        st.sampled_from(["k", 7, None, True]).map(lambda value: {"const": value}),
        st.just({"type": "string", "enum": ["x", "y"]}),
        st.just({"type": ["string", "null"], "enum": ["x", None]}),
    )


def leaves() -> st.SearchStrategy[Any]:
    return st.one_of(
        strings(),
        numbers(),
        choices(),
        st.just({"type": "boolean"}),
        st.just({"type": ["integer", "string", "null"], "minLength": 1}),
        st.just({"type": "null"}),
        st.sampled_from([{}, True, {"type": "object"}, {"type": "array"}, {"not": {"type": "null"}}]),
        st.just({"$ref": "#/$defs/Leaf"}),
        st.just({"$ref": "#/$defs/Tree", "description": "A tree."}),
        st.just({"type": "string", "nullable": True}),
    )


def inner(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        objects(children),
        st.fixed_dictionaries(
            {"type": st.just("array"), "items": children},
            optional={"minItems": st.integers(0, 2), "uniqueItems": st.booleans()},
        ),
        st.lists(children, min_size=1, max_size=3).flatmap(
            lambda kinds: st.sampled_from([{}, {"items": False}, {"items": {"type": "string"}}]).map(
                lambda rest: {"type": "array", "prefixItems": kinds, **rest}
            )
        ),
        st.tuples(notes(), st.lists(children, min_size=1, max_size=3)).map(lambda made: {**made[0], "anyOf": made[1]}),
        children.map(lambda schema: {"anyOf": [schema, {"type": "null"}]}),
        st.lists(children, min_size=1, max_size=2).map(lambda kinds: {"oneOf": kinds}),
        st.lists(objects(children), min_size=1, max_size=2).map(lambda kinds: {"allOf": kinds}),
        children.map(lambda schema: {"type": "object", "additionalProperties": schema}),
    )


def objects(children: st.SearchStrategy[Any]) -> st.SearchStrategy[JSON]:
    def with_required(properties: JSON) -> st.SearchStrategy[JSON]:
        return st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.just(properties)},
            optional={
                "required": st.lists(st.sampled_from([*properties, "a"]), unique=True, max_size=2),
                "additionalProperties": st.booleans(),
                "minProperties": st.just(0),
                "description": st.just("An object."),
            },
        )

    names: st.SearchStrategy[str] = st.sampled_from(NAMES)
    return st.dictionaries(names, children, min_size=1, max_size=3).flatmap(with_required)


def schemas() -> st.SearchStrategy[JSON]:
    """Whole schemas of arguments, with definitions of which one leads back to itself."""
    shelf = {
        "Leaf": {"type": "string", "maxLength": 5},
        "Tree": {
            "type": "object",
            "properties": {"value": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
            "required": ["value"],
            "additionalProperties": False,
        },
    }
    nested = st.recursive(leaves(), inner, max_leaves=6)
    return objects(nested).map(lambda schema: {**schema, "$defs": shelf})


class Sampler:
    """Makes arguments for a schema, which may be invalid: the caller must check them."""

    def __init__(self, root: JSON, seed: int) -> None:
        self._root = root
        self._random = Random(seed)

    def value(self, schema: Any, depth: int = 0) -> Any:
        if not is_object(schema):
            return "anything"
        if "$ref" in schema:
            here: Any = self._root
            for step in schema["$ref"].split("/")[1:]:
                here = here[step.replace("~1", "/").replace("~0", "~")]
            return self.value(here, depth + 1)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self._random.choice(schema["enum"])
        for union in ("anyOf", "oneOf"):
            if union in schema and "properties" not in schema:
                return self.value(self._random.choice(schema[union]), depth + 1)
        return self._typed(schema, depth)

    def _typed(self, schema: JSON, depth: int) -> Any:
        kind = schema.get("type", "object" if {"properties", "allOf"} & set(schema) else "string")
        match self._random.choice(kind) if is_array(kind) else kind:
            case "object":
                return self._object(schema, depth)
            case "array":
                return self._array(schema, depth)
            case "integer" | "number":
                low = schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
                return low + self._random.choice([0, 1])
            case "boolean":
                return self._random.choice([True, False])
            case "null":
                return None
            case _:
                return "abcdefghijklmnopqrstuvwxyz"[
                    : max(schema.get("minLength", 0), min(3, schema.get("maxLength", 3)))
                ]

    def _object(self, schema: JSON, depth: int) -> JSON:
        made: JSON = {}
        for part in [*schema.get("allOf", []), schema]:
            required = part.get("required", [])
            for name, inner in part.get("properties", {}).items():
                if inner is not False and (name in required or (depth < 4 and self._random.random() < 0.5)):
                    made[name] = self.value(inner, depth + 1)
            made |= {name: "given" for name in required if name not in part.get("properties", {})}
            if is_object(part.get("additionalProperties")) and depth < 4 and self._random.random() < 0.5:
                made["more"] = self.value(part["additionalProperties"], depth + 1)
        return made

    def _array(self, schema: JSON, depth: int) -> list[Any]:
        made = [self.value(each, depth + 1) for each in schema.get("prefixItems", [])]
        items = schema.get("items", {"type": "string"})
        if is_object(items) and depth < 4:
            count = max(schema.get("minItems", 0) - len(made), self._random.choice([0, 1]))
            made += [self.value(items, depth + 1) for _ in range(count)]
        return made
