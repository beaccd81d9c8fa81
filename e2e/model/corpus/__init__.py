"""Questions, tool calls and answers of the demo's ReAct language: what the model learns and is judged by.

Standard library only, so that the end-to-end tests can draw questions without installing anything.
"""
