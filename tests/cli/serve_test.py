"""foretime serve: its answers and batches, and the bundles and sockets that it is given."""
import concurrent.futures
import json
import os
import random
import signal
import socket
import stat
import struct
import threading

from bundles import Server, UnixConnection
from serving import BINARY, NODES, ServeCase, layouts, small_module


class ServeTest(ServeCase):
    def test_layouts(self):
        server = Server(self, "layout.foretime", port=True)
        self.assertEqual(server.ask("GET", "/healthz"), (200, {"status": "ok", "requests": 0}))
        manifest = server.ask("GET", "/v1/model")[1]
        self.assertEqual(manifest["schema"]["kind"], "layout")
        graph = server.post("/v1/graphs", self.read("module.pb"))
        self.assertEqual(graph["nodes"], 9)
        self.assertEqual([one["node"] for one in graph["configurable"]], list(NODES))
        self.assertEqual(graph["configurable"][0]["name"], "convolution.14")
        self.assertEqual(server.post("/v1/graphs", self.read("module.pb")), graph)
        path = f"/v1/graphs/{graph['id']}/score"

        candidates, binary = layouts(1)
        scores = server.post(path, {"candidates": candidates})["scores"]
        self.assertEqual(scores, server.post(path, binary, BINARY)["scores"])
        self.write("candidates.json", {"candidates": candidates})
        self.near(scores, self.ranked("layout.foretime", "module.pb", "--candidates", "candidates.json"))

        first = min(range(5), key=scores.__getitem__)
        for i, candidate in enumerate(candidates):
            candidate["id"] = f"number {i}"
        top = server.post(path, {"candidates": candidates, "top": 1})["ranking"]
        self.assertEqual(
            [(one["candidate"], one["id"], one["score"]) for one in top], [(first, f"number {first}", scores[first])]
        )
        everything = server.post(path + "?top=0", {"candidates": candidates})["ranking"]
        self.assertEqual([one["score"] for one in everything], sorted(scores))

        # Names stand for nodes, and lists may be short.
        by_name = [{"layouts": {"convolution.14": [[1, 0], [], [0, 1]]}}, {"layouts": {"%dot.15": [[1, 0]]}}]
        by_node = [{"layouts": {"4": [1, 0] + 10 * [-1] + [0, 1] + 4 * [-1]}}, {"layouts": {"5": [1, 0] + 16 * [-1]}}]
        self.assertEqual(
            server.post(path, {"candidates": by_name})["scores"], server.post(path, {"candidates": by_node})["scores"]
        )

        # TCP gives the same, to this machine only.
        def tcp(headers):
            connection = UnixConnection("")
            connection.connect = lambda: setattr(
                connection, "sock", socket.create_connection(("127.0.0.1", server.port), 60)
            )
            answer = server.ask("POST", path, {"candidates": candidates}, headers, connection)
            connection.close()
            return answer

        self.assertEqual(tcp({})[1]["scores"], scores)
        self.assertEqual(tcp({"Host": f"127.0.0.1:{server.port}"})[0], 200)
        for name in (
            "example.com",
            "127.example.com:80",
            "127.0.0.1.example.com",
            "localhost.example.com",
            "[",
            "[::2]",
            "10.0.0.1",
        ):
            self.refused(tcp({"Host": name}), 421, "wrong_host")
        for name in ("localhost", "127.0.0.2:8080", "[::1]", "[::1]:80"):
            self.assertEqual(tcp({"Host": name})[0], 200, name)

    def test_graphs_in_json(self):
        server = Server(self, "layout.foretime")
        graph = {
            "node_features": [[float(i + j) for j in range(140)] for i in range(3)],
            "node_types": [63, 34, 75],
            "edges": [[1, 0], [2, 1]],
            "configurable_nodes": [1, 2],
        }
        made = server.post("/v1/graphs", graph)
        self.assertEqual(made["configurable"], [{"node": 1}, {"node": 2}])
        self.assertEqual(
            len(server.post(f"/v1/graphs/{made['id']}/score", {"candidates": [{"layouts": {"1": [[0]]}}]})["scores"]), 1
        )
        server.post("/v1/graphs", {**graph, "collection": "layout:xla:random"})
        for change, text in (
            ({"node_types": [63, 34]}, "node_features: 3 rows, expected one for each of 2 nodes"),
            ({"edges": [[1, 3]]}, "edges: edge[0]: 3, expected a whole number, 0 … 2"),
            ({"edges": [[1]]}, "edges: edge[0]: 1 numbers, expected [consumer, producer]"),
            ({"node_features": [[0.0] * 139] * 3}, "row[0]: 139 numbers, expected 140"),
            ({"node_types": [63, 34, 300]}, "node_types: 300, expected"),
            ({"configurable_nodes": [2, 1]}, ""),
            ({"collection": "layout:xla"}, 'collection: "layout:xla", expected one of'),
            ({"more": 1}, "more: unknown field of a graph"),
        ):
            with self.subTest(change):
                self.refused(server.ask("POST", "/v1/graphs", {**graph, **change}), 400, "bad_input", text)
        without = dict(graph)
        del without["edges"]
        self.refused(server.ask("POST", "/v1/graphs", without), 400, "bad_input", "without edges")

    def test_tiles(self):
        server = Server(self, "tile.foretime")
        graph = server.post("/v1/graphs", self.read("module.pb"))
        self.assertEqual(graph["configurable"], [])
        path = f"/v1/graphs/{graph['id']}/score"
        rows = [[float(draw % 7) for draw in range(i, i + 24)] for i in range(4)]
        scores = server.post(path, {"candidates": [{"config": row} for row in rows]})["scores"]
        self.assertEqual(
            scores, server.post(path, b"".join(struct.pack("24f", *row) for row in rows), BINARY)["scores"]
        )
        self.write("candidates.json", {"candidates": [{"config": row} for row in rows]})
        self.near(scores, self.ranked("tile.foretime", "module.pb", "--candidates", "candidates.json"))
        self.refused(
            server.ask("POST", path, b"12345", BINARY), 400, "bad_input", "5 bytes, expected 24 numbers of 4 bytes"
        )
        self.refused(
            server.ask("POST", path, struct.pack("24f", *([float("nan")] * 24)), BINARY), 400, "bad_input", "finite"
        )
        self.refused(
            server.ask("POST", path, {"candidates": [{"layouts": {}}]}), 400, "bad_input", "expected id and config"
        )

    def test_records(self):
        server = Server(self, "loops.foretime")
        workload = server.post("/v1/workloads", self.read("compute_dag.json"))
        self.assertEqual(workload["workload_key"], '["matmul", 128, 128, 128]')
        path = f"/v1/workloads/{workload['id']}/score"
        lines = self.read("records.json")
        answer = server.post(path, lines)
        scores = answer["scores"]
        self.assertEqual(len(scores), 30)
        self.assertEqual(len(answer["seconds"]), 30)
        texts = lines.decode().splitlines()
        self.assertEqual(server.post(path, {"records": texts})["scores"], scores)
        self.assertEqual(server.post(path, {"records": [json.loads(text) for text in texts]})["scores"], scores)
        self.near(scores, self.ranked("loops.foretime", "records.json", "--dags", "compute_dag.json"))
        # Some that are no schedules of the workload.
        other = texts[0].replace("128, 128, 128", "512, 512, 512")
        answer = server.post(path, "\n".join([texts[0], "nonsense", other, texts[1]]))
        self.assertEqual(answer["scores"], [scores[0], None, None, scores[1]])
        self.assertEqual(answer["failed"], 2)
        self.assertTrue(answer["first_failure"].startswith("program 1: "), answer)
        # Of a machine that the model does not know.
        self.assertNotIn("unknown_machines", answer)
        far = texts[0].replace("llvm ", "llvm -model=far ", 1)
        self.assertEqual(server.post(path, "\n".join([far, texts[0]]))["unknown_machines"], ["far"])
        ranking = server.post(path + "?top=3", "\n".join([texts[0], "nonsense", texts[1]]))["ranking"]
        self.assertEqual(ranking[2]["candidate"], 1)
        self.assertIsNone(ranking[2]["score"])
        self.refused(server.ask("POST", "/v1/workloads", "{}"), 400, "bad_input", "workload_key")
        self.refused(server.ask("POST", "/v1/graphs", self.read("module.pb")), 400, "wrong_kind")

    def test_programs(self):
        tree = self.read("tree.json").decode()
        for bundle in ("trees.foretime", "loops.foretime"):
            with self.subTest(bundle):
                server = Server(self, bundle)
                scores = server.post("/v1/tir/score", {"programs": [tree, json.loads(tree)]})["scores"]
                self.assertEqual(scores[0], scores[1])
                one_line = json.dumps(json.loads(tree))
                self.assertEqual(server.post("/v1/tir/score", f"{one_line}\r\n\n{one_line}")["scores"], scores)
                self.near(scores[:1], self.ranked(bundle, "tree.json"))
                self.assertEqual(server.end(), 0)

    def test_concurrent_requests_share_calls(self):
        server = Server(
            self, "layout.foretime", "--batch-window-us", 100_000, "--max-concurrent", 2, "--max-queue", 100
        )
        path = f"/v1/graphs/{server.post('/v1/graphs', self.read('module.pb'))['id']}/score"
        asked = [layouts(seed, count=1 + seed % 7)[0] for seed in range(40)]
        alone = [server.post(path, {"candidates": one})["scores"] for one in asked[:4]]
        with concurrent.futures.ThreadPoolExecutor(40) as pool:
            answers = list(pool.map(lambda one: server.post(path, {"candidates": one}), asked))
        self.assertGreater(max(answer["requests"] for answer in answers), 3)
        for one, answer in zip(asked, answers):
            self.assertEqual(len(answer["scores"]), len(one))
        for expected, answer in zip(alone, answers):
            self.near(answer["scores"], expected)

    def test_a_bad_request_leaves_others_of_its_call_alone(self):
        server = Server(self, "loops.foretime", "--batch-window-us", 800_000)
        path = f"/v1/workloads/{server.post('/v1/workloads', self.read('compute_dag.json'))['id']}/score"
        texts = self.read("records.json").decode().splitlines()
        asked = ["\n".join(texts[:3]), "\n".join([texts[3], "nonsense", texts[4]]), "\n".join(texts[5:7])]
        alone = [server.post(path, one) for one in asked]
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            together = list(pool.map(lambda one: server.post(path, one), asked))
        self.assertEqual({answer["requests"] for answer in together}, {3})
        for one, answer in zip(alone, together):
            self.assertEqual(answer.get("failed"), one.get("failed"))
            self.assertEqual(answer.get("first_failure"), one.get("first_failure"))
            self.near([s for s in answer["scores"] if s is not None], [s for s in one["scores"] if s is not None])

    def test_more_layouts_than_a_node_may_have_in_one_call(self):
        server = Server(self, "layout.foretime", "--batch-window-us", 300_000)
        path = f"/v1/graphs/{server.post('/v1/graphs', self.read('module.pb'))['id']}/score"
        asked = [[{"layouts": {"4": [[i, j]]}} for j in range(100)] for i in range(4)]
        every = server.post(path, {"candidates": sum(asked, [])})["scores"]
        self.near(every, sum((server.post(path, {"candidates": one})["scores"] for one in asked), []))
        self.write("candidates.json", {"candidates": sum(asked, [])})
        self.near(every, self.ranked("layout.foretime", "module.pb", "--candidates", "candidates.json"))
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            together = list(pool.map(lambda one: server.post(path, {"candidates": one})["scores"], asked))
        for one, scores in zip(asked, together):
            self.near(scores, server.post(path, {"candidates": one})["scores"])

    def test_malformed_bodies(self):
        server = Server(self, "layout.foretime", "--max-candidates", 10)
        path = f"/v1/graphs/{server.post('/v1/graphs', self.read('module.pb'))['id']}/score"
        whole = 18 * [0]
        for body, text in (
            (b"", "empty, expected JSON"),
            (b"{", "no JSON"),
            (b"[]", "a list, expected an object with candidates"),
            (b"{}", "without candidates"),
            (b'{"candidates": 1}', "candidates: 1, expected a list of candidates"),
            (b'{"candidates": []}', "empty, expected at least one candidate"),
            (b"[" * 40 + b"]" * 40, "more than 16 lists and objects inside each other"),
            (b'{"candidates": [{"layouts": {}}], "candidates": []}', "candidates: given twice"),
            (b"\xff\xfe", "no JSON"),
            ({"candidates": [{}]}, "candidates[0]: without layouts"),
            ({"candidates": [{"layouts": {}}], "more": 0}, "more: unknown field of the request"),
            ({"candidates": [{"layouts": {}}], "top": -1}, "top: -1, expected a whole number from 0"),
            (
                {"candidates": [{"layouts": {}, "id": []}]},
                "candidates[0]: id: a list, expected a text or a whole number",
            ),
            (
                {"candidates": [{"layouts": {"1": whole}}]},
                "layouts: 1: node 1 is not configurable; 3 nodes are: 4 (convolution.14)",
            ),
            ({"candidates": [{"layouts": {"99999999999": whole}}]}, "expected its name or the number of a node"),
            (
                {"candidates": [{"layouts": {"dot": whole}}]},
                "dot: not an instruction of the module, expected its name or the number of a node; 3 nodes are: 4 (convolution.14)",
            ),
            (
                {"candidates": [{"layouts": {"4": whole, "convolution.14": whole}}]},
                "this node occurs twice, expected each once",
            ),
            ({"candidates": [{"layouts": {"4": whole[:17]}}]}, "4: 17 numbers, expected 18"),
            ({"candidates": [{"layouts": {"4": 18 * [0.5]}}]}, "4: 0.5, expected a whole number, -1 … 127"),
            ({"candidates": [{"layouts": {"4": [[0, 1], [0], [1], [1]]}}]}, "4 lists, expected at most 3"),
            ({"candidates": [{"layouts": {"4": [[0, 1, 2, 3, 4, 5, 6]]}}]}, "output: 7 numbers, expected at most 6"),
            ({"candidates": [{"layouts": {"4": [[0], [200]]}}]}, "input: 200, expected a whole number, -1 … 127"),
            ({"candidates": 11 * [{"layouts": {}}]}, "more than 10 candidates, which is the limit"),
        ):
            with self.subTest(body):
                self.refused(server.ask("POST", path, body), 400, "bad_input", text)
        self.refused(server.ask("POST", path + "?top=x", {}), 400, "bad_input", "query: top")
        self.refused(server.ask("POST", path + "?best=1", {}), 400, "bad_input", "query: best")
        self.refused(server.ask("POST", path, bytes(11 * 54), BINARY), 400, "bad_input", "more than 10 candidates")
        for body in (b"nonsense", b"", self.read("module.pb")[:100], self.read("layout.foretime")):
            self.refused(server.ask("POST", "/v1/graphs", body), 400, "bad_input", "module: ")
        self.refused(server.ask("GET", "/"), 404, "not_found")
        self.refused(server.ask("GET", "/v1/graphs"), 405, "method_not_allowed")
        self.refused(server.ask("POST", "/healthz", b""), 405, "method_not_allowed")
        self.refused(server.ask("POST", "/v1/graphs/none/score", {}), 404, "unknown_graph")
        self.refused(server.ask("POST", "/v1/tir/score", b"{}"), 400, "wrong_kind", "the model scores layout")
        self.assertEqual(server.ask("GET", "/healthz"), (200, {"status": "ok", "requests": 0}))

    def test_opens_a_replaced_bundle(self):
        server = Server(self, "layout.foretime", "--batch-window-us", 10_000_000)
        graph = server.post("/v1/graphs", self.read("module.pb"))
        path = f"/v1/graphs/{graph['id']}/score"
        candidates, binary = layouts(1)
        scores = server.post(path, binary, BINARY)["scores"]
        bundle = self.read("layout.foretime")

        def replace(content):
            self.write("next", content)
            (self.folder / "next").rename(self.folder / "layout.foretime")
            server.process.send_signal(signal.SIGHUP)

        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            (waiting,) = self.begin_requests(pool, server, (path, binary, BINARY))
            replace(self.read("tile.foretime"))
            self.assertIn("layout.foretime: opened again", server.process.stdout.readline())
            self.assertEqual(server.ask("GET", "/v1/model")[1]["schema"]["kind"], "tile")
            self.refused(server.ask("POST", path, b"\0" * 96, BINARY), 404, "unknown_graph")
            self.assertEqual(waiting.result()["scores"], scores)  # by the model that it came to
        self.assertEqual(server.post("/v1/graphs", self.read("module.pb"))["id"], graph["id"])
        self.assertEqual(len(server.post(path, b"\0" * 96, BINARY)["scores"]), 1)

        replace(b"no bundle")
        error = server.process.stderr.readline()
        self.assertIn("layout.foretime: ", error)
        self.assertIn("; keeps the current model", error)
        self.assertEqual(len(server.post(path, b"\0" * 96, BINARY)["scores"]), 1)
        replace(bundle)
        self.assertIn("opened again", server.process.stdout.readline())
        server.post("/v1/graphs", self.read("module.pb"))
        self.assertEqual(server.post(path, {"candidates": candidates})["scores"], scores)
        self.assertEqual(server.end(), 0)
        self.assertEqual(server.process.stderr.read(), "")

    def test_another_server_takes_its_place(self):
        first = Server(self, "layout.foretime")
        first.path.unlink()  # as somebody who cleans up does
        second = Server(self, "layout.foretime")
        self.assertEqual(first.end(), 0)  # leaves the other one's socket where it is
        self.assertEqual(second.ask("GET", "/healthz")[0], 200)
        self.assertEqual(second.end(), 0)
        self.assertFalse(second.path.exists())

    def test_many_at_once_on_kept_connections(self):
        server = Server(self, "layout.foretime", "--max-concurrent", 2)
        graphs = [f"/v1/graphs/{server.post('/v1/graphs', small_module(f'small{i}'))['id']}/score" for i in range(3)]
        body = {"candidates": [{"layouts": {"2": [[i]]}} for i in range(3)]}
        expected = [server.post(path, body)["scores"] for path in graphs]
        failures = []

        def client(seed):
            connection = server.connect()
            draw = random.Random(seed)
            for _ in range(50):
                which = draw.randrange(3)
                status, answer = server.ask("POST", graphs[which], body, connection=connection)
                if status != 200 or any(abs(a - b) > 1e-5 for a, b in zip(answer["scores"], expected[which])):
                    failures.append((status, answer))
            connection.close()

        threads = [threading.Thread(target=client, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_where_it_listens(self):
        start = lambda *options, code: self.run_foretime("serve", "layout.foretime", *options, code=code).stderr
        for address in ("0.0.0.0", "192.168.0.1", "::", "localhost", ""):
            self.expect_message(start("--port", 0, "--address", address, code=2))
        self.expect_message(start(code=2))
        start("--port", 70000, code=2)
        self.write("file", b"")
        self.expect_message(start("--socket", "file", code=4), "unix:file")
        self.assertIn("expected a path of 1 to 107", start("--socket", 200 * "x", code=4))
        self.expect_message(start("--socket", "none/socket", code=4))
        server = Server(self, "layout.foretime", port=True)
        self.assertEqual(stat.S_IMODE(os.stat(server.path).st_mode), 0o700)
        self.expect_message(start("--socket", "socket", code=4))
        self.expect_message(start("--port", server.port, code=4))
        self.assertEqual(server.ask("GET", "/healthz")[0], 200)
        self.assertIn("module.pb", self.run_foretime("serve", "module.pb", "--socket", "other", code=3).stderr)
        self.assertFalse((self.folder / "other").exists())
        self.run_foretime("serve", "none.foretime", "--socket", "other", code=3)
