"""A small Hub on loopback: the endpoints that huggingface_hub asks when it reads and pushes."""

import base64
import hashlib
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

LARGE = ".safetensors"
"""What is stored as LFS objects, as on the real one."""


@dataclass
class Repository:
    commits: dict = field(default_factory=dict)
    refs: dict = field(default_factory=dict)
    gated: bool = False
    private: bool = False


class Hub:
    """Repositories by (kind, name), and every request that was made."""

    def __init__(self):
        self.repositories, self.objects, self.requests, self.full = {}, {}, [], False
        self.server = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Handler", (_Requests,), {"hub": self})
        )
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def push(self, name, files, *, kind="models", branch="main", without=(), **about):
        """Put the bytes of ``files`` upon the branch and return the commit."""
        repository = self.repositories.setdefault((kind, name), Repository(**about))
        before = repository.commits.get(repository.refs.get(branch), {})
        kept = {path: data for path, data in before.items() if path not in without}
        content = {**kept, **files}
        told = [f"{path} {hashlib.sha1(data).hexdigest()}" for path, data in content.items()]
        commit = hashlib.sha1("\n".join([name, *told]).encode()).hexdigest()
        repository.commits[commit] = content
        repository.refs[branch] = commit
        return commit

    def push_directory(self, name, directory, **about):
        files = {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}
        return self.push(name, files, **about)

    def files(self, name, *, kind="models"):
        repository = self.repositories[kind, name]
        return repository.commits[repository.refs["main"]]


class _Requests(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.hub.requests.append((self.command, self.path))
        parts = unquote(self.path.partition("?")[0]).strip("/").split("/")
        if parts[0] == "api":
            return self.tell_about(parts[1], "/".join(parts[2:4]), parts[4:])
        kind = "datasets" if parts[0] == "datasets" else "models"
        parts = parts[1:] if kind == "datasets" else parts
        return self.give_file(kind, "/".join(parts[:2]), parts[3], "/".join(parts[4:]))

    do_HEAD = do_GET  # noqa: N815

    def do_POST(self):
        self.hub.requests.append((self.command, self.path))
        body = self.rfile.read(int(self.headers["Content-Length"]))
        parts = self.path.strip("/").split("/")
        if self.path == "/api/repos/create":
            said = json.loads(body)
            name = f"{said['organization']}/{said['name']}" if "organization" in said else ""
            private = said.get("private") or said.get("visibility") == "private"
            return self.create(name, private=bool(private))
        if self.path == "/api/validate-yaml":
            return self.answer({"errors": [], "warnings": []})
        if parts[0] == "api" and parts[4] == "preupload":
            return self.answer({"files": [_mode(one) for one in json.loads(body)["files"]]})
        if parts[0] == "api" and parts[4] == "commit":
            return self.commit("/".join(parts[2:4]), body)
        return self.answer(self.batch(json.loads(body)))

    def do_PUT(self):
        self.hub.requests.append((self.command, self.path))
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.hub.full:
            return self.refuse(507, "Full")
        self.hub.objects[self.path.rpartition("/")[2]] = body
        return self.answer({})

    def repository(self, kind, name):
        found = self.hub.repositories.get((kind, name))
        if found is None or (found.private and not self.headers.get("authorization")):
            self.refuse(404, "RepoNotFound")
            return None
        return found

    def tell_about(self, kind, name, rest):
        repository = self.repository(kind, name)
        if repository is None:
            return
        asked = rest[1] if len(rest) > 1 else "main"
        commit = repository.refs.get(asked, asked)
        if commit not in repository.commits:
            self.refuse(404, "RevisionNotFound")
            return
        content = repository.commits[commit]
        if rest and rest[0] == "tree":
            self.answer([_entry(path, data) for path, data in content.items()])
            return
        siblings = [{"rfilename": path} for path in content]
        self.answer({"id": name, "sha": commit, "siblings": siblings, "tags": []})

    def give_file(self, kind, name, asked, path):
        repository = self.repository(kind, name)
        if repository is None:
            return
        commit = repository.refs.get(asked, asked)
        if commit not in repository.commits:
            self.refuse(404, "RevisionNotFound")
        elif repository.gated:
            self.refuse(403, "GatedRepo")
        elif path not in repository.commits[commit]:
            self.refuse(404, "EntryNotFound", {"X-Repo-Commit": commit})
        else:
            data = repository.commits[commit][path]
            etag = f'"{hashlib.sha256(data).hexdigest()}"'
            self.send(200, data, {"X-Repo-Commit": commit, "ETag": etag})

    def create(self, name, *, private):
        if not self.headers.get("authorization"):
            return self.refuse(401, "Unauthorized")
        if ("models", name) in self.hub.repositories:
            told = json.dumps({"url": f"{self.hub.url}/{name}"}).encode()
            return self.send(409, told, {"X-Error-Code": "Conflict"})
        self.hub.push(name, {".gitattributes": b""}, private=private)
        return self.answer({"url": f"{self.hub.url}/{name}"})

    def batch(self, said):
        upload = [
            {**one, "actions": {"upload": {"href": f"{self.hub.url}/objects/{one['oid']}"}}}
            for one in said["objects"]
        ]
        return {"transfer": "basic", "objects": upload}

    def commit(self, name, body):
        files, gone = {}, []
        for line in body.splitlines():
            said = json.loads(line)
            value = said["value"]
            if said["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif said["key"] == "lfsFile":
                files[value["path"]] = self.hub.objects[value["oid"]]
            elif said["key"] == "deletedFile":
                gone.append(value["path"])
        commit = self.hub.push(name, files, without=gone)
        url = f"{self.hub.url}/{name}/commit/{commit}"
        self.answer({"success": True, "commitOid": commit, "commitUrl": url})

    def answer(self, content):
        self.send(200, json.dumps(content).encode(), {"Content-Type": "application/json"})

    def refuse(self, status, code, headers=None):
        self.send(status, b"", {"X-Error-Code": code, **(headers or {})})

    def send(self, status, data, headers):
        self.send_response(status)
        for name, value in {**headers, "Content-Length": len(data)}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _mode(file):
    large = file["path"].endswith(LARGE)
    return {
        "path": file["path"],
        "uploadMode": "lfs" if large else "regular",
        "shouldIgnore": False,
        "oid": None,
    }


def _entry(path, data):
    entry = {"type": "file", "path": path, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
    if path.endswith(LARGE):
        digest = hashlib.sha256(data).hexdigest()
        entry["lfs"] = {"oid": digest, "size": len(data), "pointerSize": 134}
    return entry
