#!/usr/bin/env python3
"""A stand-in for an S3-compatible store that believes nobody: it verifies the signature (AWS Signature Version 4), the date
and the hash of the body of every request, as https://docs.aws.amazon.com/IAM/latest/UserGuide/create-signed-request.html
says, and keeps objects in memory.

  s3_server.py BUCKET KEY_ID SECRET [--fail N] [--page N] [--token TOKEN] [--list-all]     prints its port; ends with its input

The first N requests are answered with 503 SlowDown; lists have N names; TOKEN must come as x-amz-security-token; with
--list-all the prefix that is asked for is ignored.
"""
import argparse
import datetime
import hashlib
import hmac
import http.server
import re
import sys
import threading
import urllib.parse
import xml.sax.saxutils


def encoded(text, safe="-._~"):
    return urllib.parse.quote(text, safe=safe)


def signature(secret, method, path, query, headers, signed, payload_hash, date, scope):
    """Of a request as it came: `path` and `query` without changes to their encoding."""
    pairs = sorted(
        tuple(encoded(urllib.parse.unquote(part)) for part in (item.split("=", 1) + [""])[:2])
        for item in query.split("&")
        if item
    )
    canonical = "\n".join(
        [
            method,
            path,
            "&".join("=".join(pair) for pair in pairs),
            "".join(f"{name}:{' '.join(headers.get(name, '').split())}\n" for name in signed),
            ";".join(signed),
            payload_hash,
        ]
    )
    to_sign = "\n".join(["AWS4-HMAC-SHA256", date, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + secret).encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()


class Refused(Exception):
    pass


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", kind="application/xml"):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status, code, message=""):
        self.answer(
            status,
            f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>{xml.sax.saxutils.escape(message)}</Message></Error>'.encode(),
        )

    def check(self, path, query, body):
        options = self.server.options
        match = re.fullmatch(
            r"AWS4-HMAC-SHA256 Credential=([^/]+)/((\d{8})/[^/]+/s3/aws4_request), ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})",
            self.headers.get("Authorization", ""),
        )
        if not match:
            raise Refused("AccessDenied", "no signature")
        key_id, scope, day, signed, given = match.groups()
        if key_id != options.key_id:
            raise Refused("InvalidAccessKeyId", key_id)
        date = self.headers.get("x-amz-date", "")
        moment = datetime.datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc)
        if abs((datetime.datetime.now(datetime.timezone.utc) - moment).total_seconds()) > 900 or not date.startswith(
            day
        ):
            raise Refused("RequestTimeTooSkewed", date)
        payload_hash = self.headers.get("x-amz-content-sha256", "")
        if payload_hash != hashlib.sha256(body).hexdigest():
            raise Refused("XAmzContentSHA256Mismatch", payload_hash)
        signed = signed.split(";")
        for name in ["host", "x-amz-date", "x-amz-content-sha256"] + ["x-amz-security-token"] * (
            options.token is not None
        ):
            if name not in signed:
                raise Refused("AccessDenied", f"{name} is not signed")
        if options.token is not None and self.headers.get("x-amz-security-token") != options.token:
            raise Refused("InvalidToken", "")
        headers = {name.lower(): value for name, value in self.headers.items()}
        expected = signature(
            options.secret, self.command, path, query, headers, sorted(signed), payload_hash, date, scope
        )
        if not hmac.compare_digest(expected, given):
            raise Refused(
                "SignatureDoesNotMatch",
                "The request signature we calculated does not match the signature you provided.",
            )

    def handle_request(self):
        server = self.server
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path, _, query = self.path.partition("?")
        with server.lock:
            server.failures -= 1
            if server.failures >= 0:
                return self.refuse(503, "SlowDown", "Please reduce your request rate.")
            try:
                self.check(path, query, body)
            except Refused as error:
                return self.refuse(403, *error.args)
            bucket, _, key = urllib.parse.unquote(path)[1:].partition("/")
            if bucket != server.options.bucket:
                return self.refuse(404, "NoSuchBucket", bucket)
            if self.command == "PUT" and key:
                server.objects[key] = body
                return self.answer(200)
            if self.command == "DELETE" and key:
                server.objects.pop(key, None)
                return self.answer(204)
            if key:
                return (
                    self.answer(200, server.objects[key], "binary/octet-stream")
                    if key in server.objects
                    else self.refuse(404, "NoSuchKey", key)
                )
            return self.list(dict(urllib.parse.parse_qsl(query)))

    def list(self, query):
        names = sorted(
            name
            for name in self.server.objects
            if self.server.options.list_all or name.startswith(query.get("prefix", ""))
        )
        names = [name for name in names if name > query.get("start-after", "")]
        page = names[: self.server.options.page]
        left = len(page) < len(names)
        contents = "".join(f"<Contents><Key>{xml.sax.saxutils.escape(name)}</Key></Contents>" for name in page)
        more = f"<NextContinuationToken>{len(page)}/+=</NextContinuationToken>" if left else ""
        self.answer(
            200,
            f'<?xml version="1.0"?><ListBucketResult><IsTruncated>{str(left).lower()}</IsTruncated>{more}{contents}</ListBucketResult>'.encode(),
        )

    do_GET = do_PUT = do_DELETE = handle_request


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("bucket", "key_id", "secret"):
        parser.add_argument(name)
    parser.add_argument("--fail", type=int, default=0)
    parser.add_argument("--page", type=int, default=1000)
    parser.add_argument("--token")
    parser.add_argument("--list-all", action="store_true")
    parser.add_argument("--address", default="127.0.0.1")
    options = parser.parse_args()
    server = http.server.ThreadingHTTPServer((options.address, 0), Handler)
    server.handle_error = lambda *_: None  # clients may be killed
    server.options, server.objects, server.lock, server.failures = options, {}, threading.Lock(), options.fail
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
