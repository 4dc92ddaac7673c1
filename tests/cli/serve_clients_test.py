"""foretime serve and its clients: limits, queues, slow and hostile senders, and its end."""
import concurrent.futures
import json
import random
import signal
import socket
import threading

from bundles import Server
from program import LIMIT, wait_until
from serving import ServeCase, layouts, module, small_module


LONG_WINDOW = 10_000_000  # microseconds; the longest that may be set


class ServeClientsTest(ServeCase):
    def raw(self, server, *pieces):
        """What the server says to bytes that are not quite HTTP."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(LIMIT)
            connection.connect(str(server.path))
            heard = b""
            try:
                for piece in pieces:
                    connection.sendall(piece)
                while piece := connection.recv(4096):
                    heard += piece
            except (BrokenPipeError, ConnectionResetError):
                pass
            return heard

    def test_limits(self):
        server = Server(self, "layout.foretime", "--max-body", 1, "--max-graphs", 2, "--max-nodes", 100)
        head = b"POST /v1/graphs HTTP/1.1\r\nHost: localhost\r\n"
        # Said before the body is sent, to a client that waits for it.
        said = self.raw(server, head + b"Content-Length: 1048577\r\nExpect: 100-continue\r\n\r\n")
        self.assertTrue(said.startswith(b"HTTP/1.1 413 "), said)
        self.assertIn(b"too_large", said)
        chunk = b"10000\r\n" + bytes(0x10000) + b"\r\n"
        said = self.raw(server, head + b"Transfer-Encoding: chunked\r\n\r\n", 17 * chunk, b"0\r\n\r\n")
        self.assertTrue(said.startswith(b"HTTP/1.1 413 "), said[:200])
        # One who never ends is cut off.
        self.raw(server, head + b"Transfer-Encoding: chunked\r\n\r\n", *(100 * [chunk]))
        self.assertTrue(
            self.raw(server, head + b"X: " + 100_000 * b"x" + b"\r\n\r\n").split()[1] in (b"400", b"431", b"413")
        )
        for wrong in (b"nonsense\r\n\r\n", head + b"Content-Length: x\r\n\r\n", head + b"Content-Length: -5\r\n\r\n"):
            said = self.raw(server, wrong)  # an answer, or the connection ends
            self.assertTrue(not said or said.split()[1] in (b"400", b"413"), said[:200])
            self.assertEqual(server.ask("GET", "/healthz")[0], 200, wrong)
        self.refused(server.ask("POST", "/v1/graphs", bytes(1000)), 400, "bad_input")

        # A name of 123 bytes makes a module begin as JSON may.
        self.assertGreater(server.post("/v1/graphs", small_module("x" * 123))["nodes"], 0)
        # What JSON leaves out takes memory all the same: 2 nodes x 18 bytes.
        graph = server.post("/v1/graphs", small_module("sparse"))["id"]
        most = (1 << 20) // (18 * len(server.post("/v1/graphs", small_module("sparse"))["configurable"]))
        self.refused(
            server.ask("POST", f"/v1/graphs/{graph}/score", {"candidates": (most + 1) * [{"layouts": {}}]}),
            400,
            "bad_input",
            f"more than {most} candidates",
        )

        many = module("many", (("parameter",),) + 100 * (("reshape", (1,)),))
        self.refused(server.ask("POST", "/v1/graphs", many), 400, "bad_input", "more than 100 instructions")
        # The two graphs that were used last are kept.
        ids = [server.post("/v1/graphs", small_module(f"small{i}"))["id"] for i in range(2)]
        score = {"candidates": [{"layouts": {}}]}
        server.post(f"/v1/graphs/{ids[0]}/score", score)
        ids.append(server.post("/v1/graphs", small_module("small2"))["id"])
        server.post(f"/v1/graphs/{ids[0]}/score", score)
        server.post(f"/v1/graphs/{ids[2]}/score", score)
        self.refused(server.ask("POST", f"/v1/graphs/{ids[1]}/score", score), 404, "unknown_graph")

    def test_a_request_whose_end_is_ambiguous_is_refused_and_ends_its_connection(self):
        server = Server(self, "layout.foretime")
        hidden = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        head = b"POST /v1/graphs HTTP/1.1\r\nHost: localhost\r\n"
        for name, request in {
            "two lengths": head + b"Content-Length: 2\r\nContent-Length: 40\r\n\r\n{}",
            "two equal lengths": head + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
            "length and encoding": head + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "a blank before the colon": head + b"Content-Length : 2\r\n\r\n{}",
            "another encoding": head + b"Transfer-Encoding: xchunked\r\n\r\n{}",
            "two encodings": head + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
            "a signed length": head + b"Content-Length: +2\r\n\r\n{}",
            "two hosts": b"POST /v1/graphs HTTP/1.1\r\nHost: localhost\r\nHost: other\r\nContent-Length: 2\r\n\r\n{}",
            "no host": b"POST /v1/graphs HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
            "an old version with an encoding": b"POST /v1/graphs HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        }.items():
            with self.subTest(name):
                said = self.raw(server, request + hidden)
                self.assertNotIn(b" 200 ", said)  # the second request has no answer
                self.assertEqual(said.split()[1], b"400", said)
        self.assertEqual(
            self.raw(server, hidden + hidden.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")).count(b" 200 OK"),
            2,
        )

    def test_more_than_can_wait_are_turned_away(self):
        server = Server(
            self, "layout.foretime", "--max-concurrent", 1, "--max-queue", 1, "--batch-window-us", LONG_WINDOW
        )
        graphs = [f"/v1/graphs/{server.post('/v1/graphs', small_module(f'small{i}'))['id']}/score" for i in range(3)]
        score = {"candidates": [{"layouts": {}}]}
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            waiting = self.begin_requests(pool, server, *((path, score) for path in graphs[:2]))
            connection = server.connect()
            connection.request("POST", graphs[2], json.dumps(score))
            response = connection.getresponse()
            self.assertEqual((response.status, response.getheader("Retry-After")), (503, "1"))
            self.assertEqual(json.loads(response.read())["error"]["code"], "busy")
            connection.close()
            self.assertEqual(server.ask("GET", "/healthz")[0], 200)
            for one in waiting:
                self.assertEqual(len(one.result()["scores"]), 1)
        self.assertEqual(len(server.post(graphs[2], score)["scores"]), 1)

    def test_ends_when_requests_are_answered(self):
        for how in (signal.SIGTERM, signal.SIGINT):
            server = Server(self, "layout.foretime", "--batch-window-us", LONG_WINDOW)
            path = f"/v1/graphs/{server.post('/v1/graphs', self.read('module.pb'))['id']}/score"
            idle = server.connect()
            server.ask("GET", "/healthz", connection=idle)
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                (waiting,) = self.begin_requests(pool, server, (path, {"candidates": layouts(1)[0]}))
                self.assertEqual(server.end(how), 0)
                self.assertEqual(len(waiting.result()["scores"]), 5)
            idle.close()
            self.assertFalse(server.path.exists())
            self.assertEqual(server.process.stderr.read(), "")

    def test_refuses_connections_while_it_drains(self):
        # Much to score, so that draining takes a moment in which others may come.
        server = Server(self, "layout.foretime", "--max-body", 200, "--max-candidates", 3_000_000, port=True)
        graph = server.post("/v1/graphs", self.read("module.pb"))
        row = 18 * len(graph["configurable"])
        body = random.Random(1).randbytes(1_000_000 * row).translate(bytes(value % 4 for value in range(256)))
        path = f"/v1/graphs/{graph['id']}/score?top=1"
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            (waiting,) = self.begin_requests(pool, server, (path, body, {"Content-Type": "application/octet-stream"}))
            server.process.send_signal(signal.SIGTERM)
            self.assertTrue(wait_until(lambda: not server.path.exists()))
            with self.assertRaises(OSError):
                socket.create_connection(("127.0.0.1", server.port), 5)
            successor = Server(self, "layout.foretime")  # the path is free
            self.assertEqual(successor.ask("GET", "/healthz")[0], 200)
            self.assertEqual(len(waiting.result()["ranking"]), 1)
        self.assertEqual(server.process.wait(LIMIT), 0)
        self.assertEqual(successor.ask("GET", "/healthz")[0], 200)

    def test_killed_while_scoring(self):
        server = Server(self, "layout.foretime", "--batch-window-us", LONG_WINDOW)
        path = f"/v1/graphs/{server.post('/v1/graphs', self.read('module.pb'))['id']}/score"
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            (waiting,) = self.begin_requests(pool, server, (path, {"candidates": layouts(1)[0]}))
            self.assertEqual(server.end(signal.SIGKILL), -signal.SIGKILL)
            self.assertRaises((ConnectionError, OSError, ValueError), waiting.result)
        self.assertTrue(server.path.exists())
        again = Server(self, "layout.foretime")  # takes the socket that was left
        self.assertEqual(again.ask("GET", "/healthz")[0], 200)

    def test_clients_that_leave_or_are_slow(self):
        server = Server(self, "layout.foretime", "--batch-window-us", 200_000)
        path = f"/v1/graphs/{server.post('/v1/graphs', self.read('module.pb'))['id']}/score"
        body = json.dumps({"candidates": layouts(1)[0]}).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        slow = [socket.socket(socket.AF_UNIX) for _ in range(20)]
        for connection in slow:
            connection.connect(str(server.path))
            connection.sendall(head + body[:10])
        for _ in range(10):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(server.path))
                connection.sendall(head + body)
        self.assertEqual(len(server.post(path, {"candidates": layouts(1)[0]})["scores"]), 5)
        for connection in slow:
            connection.close()
        self.assertEqual(server.end(), 0)

    def dribble(self, server, count, head, pause=0.2):
        """Connections that send a byte now and then and never end; the function that ends them."""
        connections = []
        for i in range(count):
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(str(server.path))
            connection.sendall(head[: 5 + i % (len(head) - 5)])
            connections.append(connection)
        ended = threading.Event()
        closed = set()

        def send():
            while not ended.wait(pause):
                for connection in connections:
                    try:
                        if connection not in closed:
                            connection.send(b"x")
                    except OSError:
                        closed.add(connection)

        thread = threading.Thread(target=send)
        thread.start()

        def end():
            ended.set()
            thread.join()
            for connection in connections:
                connection.close()

        self.addCleanup(end)
        return closed

    # Promise server/senders-slow
    def test_a_connection_that_stands_still_is_closed(self):
        server = Server(self, "layout.foretime", "--idle-seconds", 1)
        for started in (b"", b"POST /v1/graphs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\nx"):
            with self.subTest(started), socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(LIMIT)
                connection.connect(str(server.path))
                connection.sendall(started)
                self.assertEqual(connection.recv(1), b"")
        self.assertTrue(wait_until(lambda: server.ask("GET", "/healthz")[1]["requests"] == 0))

    # Promise server/other-sites: pages of other sites may not post
    def test_pages_of_other_sites_are_refused(self):
        server = Server(self, "layout.foretime")
        for headers in (
            {"Origin": "https://example.com"},
            {"Origin": "null"},
            {"Origin": "http://localhost.example.com"},
            {"Origin": "http://127.0.0.1.example.com:80"},
            {"Sec-Fetch-Site": "cross-site"},
            {"Origin": "http://"},
            {"Origin": "http://localhost", "Sec-Fetch-Site": "cross-site"},
        ):
            with self.subTest(headers):
                self.refused(
                    server.ask("POST", "/v1/graphs", self.read("module.pb"), {"Host": "localhost", **headers}),
                    403,
                    "foreign_origin",
                )
        for headers in (
            {"Origin": "http://localhost:3000"},
            {"Origin": "http://127.0.0.1"},
            {"Origin": "http://[::1]:80"},
            {"Sec-Fetch-Site": "same-origin"},
            {"Sec-Fetch-Site": "none"},
        ):
            with self.subTest(headers):
                self.assertEqual(server.ask("POST", "/v1/graphs", self.read("module.pb"), headers)[0], 200)
        self.assertEqual(server.ask("GET", "/healthz", None, {"Origin": "https://example.com"})[0], 200)

    # Promise server/senders-slow: slow senders do not delay the server's end; a connection that moves no byte is closed
    def test_a_slow_sender_does_not_hold_the_end(self):
        server = Server(self, "layout.foretime", "--drain-seconds", 3600)
        head = b"POST /v1/graphs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n"
        self.dribble(server, 5, head + 100 * b"x")
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(server.path))
            connection.sendall(head + b"x")
            self.assertTrue(wait_until(lambda: server.ask("GET", "/healthz")[1]["requests"] == 0))
            self.assertEqual(server.end(), 0)
