"""A server of tools, made with whichever major version of MCP's Python SDK is installed.

    server.py PORT [json] [stateless]
    server.py stdio
"""

import sys

try:
    from mcp.server.mcpserver import Context, MCPServer as Server
    from mcp.server.mcpserver.exceptions import ToolError
except ImportError:
    from mcp.server.fastmcp import Context, FastMCP as Server
    from mcp.server.fastmcp.exceptions import ToolError


def tools(server) -> None:
    """Adds the tools."""

    @server.tool()
    def weather(city: str, days: int = 1) -> dict:
        """The weather of a city.

        In degrees Celsius.
        """
        return {"city": city, "days": days, "degrees": 7}

    @server.tool()
    def echo(text: str) -> str:
        """Says it again."""
        return text

    @server.tool()
    def fail(reason: str) -> str:
        """Fails."""
        raise ToolError(reason)

    @server.tool()
    async def work(steps: int, context: Context) -> str:
        """Tells how far it is."""
        for step in range(steps):
            await context.report_progress(step, steps)
        return f"{steps} steps"

    @server.tool()
    async def grow(context: Context) -> str:
        """Adds a tool, and says so."""

        def grown() -> str:
            """Was not there at first."""
            return "it grew"

        server.add_tool(grown)
        announce = getattr(context, "notify_tools_changed", None) or context.session.send_tool_list_changed
        await announce()
        return "grown"


def main() -> None:
    if sys.argv[1] == "stdio":
        server = Server("home")
        tools(server)
        return server.run("stdio")
    port, options = int(sys.argv[1]), sys.argv[2:]
    settings = {"host": "127.0.0.1", "port": port, "json_response": "json" in options}
    settings["stateless_http"] = "stateless" in options
    if Server.__name__ == "FastMCP":
        server = Server("home", **settings)
        tools(server)
        server.run("streamable-http")
    else:
        server = Server("home")
        tools(server)
        server.run("streamable-http", **settings)


main()
