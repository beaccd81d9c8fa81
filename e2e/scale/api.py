"""A small client of the API server: requests, patches and watches, of the standard library alone."""

import http.client
import json
import ssl
import threading

TIMEOUT_S = 60


class Refused(Exception):
    """The server's answer to what it did not do."""

    def __init__(self, method, path, code, body):
        super().__init__(f"{method} {path}: {code} {body[:300]}")
        self.code = code


class Api:
    """Connections of one user, one per thread."""

    def __init__(self, host, port, token):
        self.address, self.token = (host, port), token
        self.context = ssl._create_unverified_context()
        self.local = threading.local()

    def connection(self, timeout=TIMEOUT_S):
        return http.client.HTTPSConnection(*self.address, timeout=timeout, context=self.context)

    def send(self, method, path, body=None, content="application/json"):
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content, "Accept": "application/json"}
        data = json.dumps(body) if body is not None else None
        for attempt in (0, 1):
            connection = getattr(self.local, "connection", None) or self.connection()
            self.local.connection = connection
            try:
                connection.request(method, path, data, headers)
                response = connection.getresponse()
                text = response.read().decode()
                break
            except (http.client.HTTPException, OSError):
                # The server closes connections that were idle.
                self.local.connection = None
                if attempt:
                    raise
        if response.status >= 300:
            raise Refused(method, path, response.status, text)
        return json.loads(text) if text.startswith("{") else text

    def get(self, path):
        return self.send("GET", path)

    def create(self, path, body):
        try:
            return self.send("POST", path, body)
        except Refused as refused:
            if refused.code != 409:
                raise

    def merge(self, path, body):
        return self.send("PATCH", path, body, "application/merge-patch+json")

    def delete(self, path):
        try:
            return self.send("DELETE", path)
        except Refused as refused:
            if refused.code != 404:
                raise

    def watch(self, path, stop):
        """Yields (type, object), beginning with what is there; begins again where a watch ends."""
        while not stop.is_set():
            try:
                listed = self.get(path)
                for item in listed.get("items") or []:
                    yield "ADDED", item
                yield from self.follow(path, listed["metadata"]["resourceVersion"], stop)
            except (http.client.HTTPException, OSError, Refused):
                stop.wait(1)

    def follow(self, path, version, stop):
        joint = "&" if "?" in path else "?"
        while not stop.is_set():
            connection = self.connection(timeout=400)
            target = f"{path}{joint}watch=true&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds=300"
            connection.request("GET", target, headers={"Authorization": f"Bearer {self.token}"})
            response = connection.getresponse()
            if response.status != 200:
                return
            for line in response:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    yield event["type"], event["object"]
                if stop.is_set():
                    return
