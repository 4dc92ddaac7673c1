// Full cycles of BullMQ (add, claim, complete) on a Redis that runs already, for bench/queue_cycles.py.
//   node bench/queue_peer.mjs SOCKET JOBS WORKERS     with bullmq and ioredis below node_modules of the working folder
// Prints JSON: seconds of adding, and of all workers together until the last job is complete.
import { createRequire } from "node:module";

const require = createRequire(process.cwd() + "/");
const { Queue, Worker } = require("bullmq");
const [socket, jobs, workers] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const connection = { path: socket, maxRetriesPerRequest: null };
const name = `peer${jobs}x${workers}`;
const seconds = () => Number(process.hrtime.bigint()) / 1e9;
// What a trial carries where its sweep holds the settings, and what it leaves.
const data = { sweep: "c5152b92aaf6fdc8", parameters: { "optimizer.learning_rate": "0.001", "model.layers": "3" } };
const result = { "holdout/mae": 0.125, "holdout/kendall_tau": 0.5, "holdout/opa": 0.75 };

const queue = new Queue(name, { connection });
await queue.waitUntilReady();
const started = seconds();
for (let i = 0; i < jobs; i += 512) {
  const some = Array.from({ length: Math.min(512, jobs - i) }, () => ({ name: "trial", data }));
  await queue.addBulk(some);
}
const added = seconds();

let complete = 0;
let finish;
const all = new Promise((resolve) => (finish = resolve));
const pool = [];
for (let i = 0; i < workers; ++i) {
  const worker = new Worker(
    name,
    async () => {
      if (++complete === jobs) finish();
      return result;
    },
    { connection, concurrency: 1, autorun: false },
  );
  worker.on("error", (error) => console.error(error.message));
  pool.push(worker);
}
await Promise.all(pool.map((worker) => worker.waitUntilReady()));
const began = seconds();
for (const worker of pool) worker.run();
await all;
while ((await queue.getCompletedCount()) < jobs) await new Promise((resolve) => setTimeout(resolve, 2));
const ended = seconds();
console.log(JSON.stringify({ add: added - started, work: ended - began }));
process.exit(0);
