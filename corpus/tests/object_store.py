"""A server for S3 on loopback that can be told to answer 503."""

import threading
from contextlib import contextmanager
from uuid import uuid4


@contextmanager
def bucket(busy, monkeypatch):
    """The URL of a new bucket; while the file ``busy`` exists the server answers 503."""
    import boto3  # noqa: PLC0415
    from moto.server import DomainDispatcherApplication, create_backend_app  # noqa: PLC0415
    from werkzeug.serving import make_server  # noqa: PLC0415

    inner = DomainDispatcherApplication(create_backend_app)

    def application(environ, start):
        if busy.exists():
            start("503 Slow Down", [("Content-Type", "application/xml")])
            return [
                b"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"
            ]
        return inner(environ, start)

    server = make_server("127.0.0.1", 0, application, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    name = f"corpus-{uuid4().hex[:8]}"
    boto3.client("s3").create_bucket(Bucket=name)
    try:
        yield f"s3://{name}/run"
    finally:
        server.shutdown()
        thread.join()
