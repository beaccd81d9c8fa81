"""Tools as a chat client describes them to a model: a look-up and a calculator under many names, and tools nobody needs.

The demo's own signatures (`lookup(entity, property)`, `calc(expression)`) occur in both splits; every other one belongs
to one side of the split.
"""

from dataclasses import dataclass

from corpus.draw import Draw
from corpus.split import Kind, split_of

_DEMO_SHARE = 0.5
_SUPERFLUOUS_SHARE = 0.25
_LOOKUP_VERBS = ("get", "fetch", "read", "find", "query", "look_up", "load", "show", "retrieve", "ask")
_LOOKUP_OBJECTS = ("property", "value", "fact", "attribute", "record", "field", "detail", "info", "data", "figure")
_ENTITY_NAMES = ("entity", "name", "subject", "item", "object", "place", "thing", "key", "id", "of", "who", "target")
_PROPERTY_NAMES = ("property", "attribute", "field", "metric", "column", "fact", "quantity", "what", "kind", "aspect")
_CALC_NAMES = (
    "calc", "calculate", "calculator", "compute", "evaluate", "math", "arithmetic", "eval_expression", "do_math",
    "solve", "run_calculation", "work_out",
)
_EXPRESSION_NAMES = ("expression", "formula", "expr", "term", "input", "text", "calculation", "q")
_LOOKUP_DESCRIPTIONS = (
    "looks up a property of an entity", "Returns one value of one entity.", "Reads a fact from the data base.",
    "Look up what is known about an entity.", "gives the value of a property", "", "facts about entities",
    "Finds a figure of an entity in the company's records.", "Get a property by the entity's name.",
)
_CALC_DESCRIPTIONS = (
    "exact arithmetic", "Evaluates an arithmetic expression.", "calculates", "a calculator", "",
    "Computes sums, differences, products and quotients.", "Work out an expression of numbers.", "does math exactly",
)
_SUPERFLUOUS = (
    ("weather", "tells the weather of a city", ("city",)), ("send_mail", "sends a mail", ("to", "subject", "text")),
    ("search", "searches the web", ("query",)), ("translate", "translates a text", ("text", "language")),
    ("now", "tells the time", ()), ("create_ticket", "opens a ticket", ("title", "priority")),
    ("delete_file", "deletes a file", ("path",)), ("list_users", "", ("page",)), ("stop_job", "stops a job", ("job",)),
)
_ARGUMENT_DESCRIPTIONS = ("text", "the {}", "as the user writes it", "{} to use", "a string")


@dataclass(frozen=True)
class Tool:
    """A tool of a chat: its name, what it says about itself and its arguments, all of them texts."""

    name: str
    description: str
    arguments: tuple[str, ...]

    @property
    def signature(self) -> str:
        """What the split divides."""
        return f"{self.name}({','.join(self.arguments)})"


DEMO_LOOKUP = Tool("lookup", "looks up a property of an entity", ("entity", "property"))
DEMO_CALC = Tool("calc", "exact arithmetic", ("expression",))


@dataclass(frozen=True)
class Style:
    """How a client writes tools; `None` leaves a part out."""

    is_sorted: bool = False
    """Keys in alphabetical order, as some clients keep objects."""
    has_required: bool = True
    has_argument_descriptions: bool = False
    additional_properties: bool | None = None
    strict: bool | None = None

    def described(self, tool: Tool, draw: Draw | None) -> dict:
        """Describes a tool as OpenAI's chat completions do."""
        properties = {}
        for name in tool.arguments:
            properties[name] = {"type": "string"}
            if self.has_argument_descriptions and draw:
                properties[name]["description"] = draw.pick(_ARGUMENT_DESCRIPTIONS).format(name)
        parameters: dict = {"type": "object", "properties": properties}
        if self.has_required:
            parameters["required"] = list(tool.arguments)
        if self.additional_properties is not None:
            parameters["additionalProperties"] = self.additional_properties
        function: dict = {"name": tool.name}
        if tool.description:
            function["description"] = tool.description
        function["parameters"] = parameters
        if self.strict is not None:
            function["strict"] = self.strict
        described = {"type": "function", "function": function}
        return _sorted(described) if self.is_sorted else described


@dataclass(frozen=True)
class Toolset:
    """The tools of one chat: which one looks up, which one calculates, and all descriptions in the client's order."""

    lookup: Tool
    calc: Tool
    described: tuple[dict, ...]

    def call(self, action: str) -> tuple[str, dict[str, str]]:
        """Returns name and arguments of a call that the text dialect writes as `lookup[a.b]` or `calc[a]`."""
        name, _, rest = action.partition("[")
        tool = self.lookup if name == "lookup" else self.calc
        values = {"entity": rest[:-1].rpartition(".")[0], "property": rest[:-1].rpartition(".")[2]}
        if tool is self.calc:
            return tool.name, {tool.arguments[0]: rest[:-1]}
        # An entity's argument is the one that is not the property's, whichever comes first.
        return tool.name, {
            argument: values["property" if argument in _PROPERTY_NAMES else "entity"] for argument in tool.arguments
        }


DEMO_TOOLS = Toolset(DEMO_LOOKUP, DEMO_CALC, tuple(Style().described(tool, None) for tool in (DEMO_CALC, DEMO_LOOKUP)))
"""What the demo's agent has, in its order."""


def draw_toolset(draw: Draw) -> Toolset:
    """Draws tools whose signatures are the demo's or of the draw's split."""
    if draw.chance(_DEMO_SHARE):
        lookup, calc = DEMO_LOOKUP, DEMO_CALC
    else:
        lookup, calc = _of_split(draw, _lookup), _of_split(draw, _calc)
    tools = [lookup, calc]
    if draw.chance(_SUPERFLUOUS_SHARE):
        tools += [Tool(*draw.pick(_SUPERFLUOUS)) for _ in range(draw.pick((1, 1, 2)))]
    tools = list({tool.name: tool for tool in tools}.values())
    draw.rng.shuffle(tools)
    style = Style(
        is_sorted=draw.chance(0.2), has_required=draw.chance(0.85), has_argument_descriptions=draw.chance(0.25),
        additional_properties=False if draw.chance(0.2) else None,
        strict=draw.pick((True, False)) if draw.chance(0.1) else None,
    )
    return Toolset(lookup, calc, tuple(style.described(tool, draw) for tool in tools))


def _of_split(draw: Draw, make) -> Tool:
    while True:
        tool = make(draw)
        if tool.signature in (DEMO_LOOKUP.signature, DEMO_CALC.signature):
            continue
        if split_of(Kind.SIGNATURE, tool.signature) is draw.split:
            return tool


def _lookup(draw: Draw) -> Tool:
    name = "lookup" if draw.chance(0.2) else f"{draw.pick(_LOOKUP_VERBS)}_{draw.pick(_LOOKUP_OBJECTS)}"
    arguments = (draw.pick(_ENTITY_NAMES), draw.pick(_PROPERTY_NAMES))
    return Tool(name, draw.pick(_LOOKUP_DESCRIPTIONS), arguments[::-1] if draw.chance(0.2) else arguments)


def _calc(draw: Draw) -> Tool:
    return Tool(draw.pick(_CALC_NAMES), draw.pick(_CALC_DESCRIPTIONS), (draw.pick(_EXPRESSION_NAMES),))


def _sorted(value):
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return value
