// A client in another language, generated from the .proto: submits, follows, watches and cancels.
import fs from "node:fs";
import assert from "node:assert";
import { createRequire } from "node:module";

const [modules, proto, address, certificate, token, tenant] = process.argv.slice(2);
const require = createRequire(modules + "/");
const grpc = require("@grpc/grpc-js");
const loaded = require("@grpc/proto-loader").loadSync(proto, { keepCase: true, enums: String, longs: Number });
const { Gangline } = grpc.loadPackageDefinition(loaded).gangline.v1;

const client = new Gangline(address, grpc.credentials.createSsl(fs.readFileSync(certificate)));
const metadata = new grpc.Metadata();
metadata.set("authorization", `Bearer ${token}`);

const call = (method, request) =>
  new Promise((done, failed) => client[method](request, metadata, (error, answer) => (error ? failed(error) : done(answer))));
const value = (given) =>
  Array.isArray(given) ? { listValue: { values: given.map(value) } }
  : typeof given === "object" ? { structValue: struct(given) }
  : typeof given === "number" ? { numberValue: given } : { stringValue: given };
const struct = (given) => ({ fields: Object.fromEntries(Object.entries(given).map(([name, each]) => [name, value(each)])) });
const file = (name, command) =>
  struct({ metadata: { name, tenant }, spec: { command, resources: { cpu: "100m", memory: "64Mi" } } });

const made = await call("CreateJob", { tenant, id: "node-1", body: file("tour", ["echo", "hello from node"]) });
assert.equal(made.metadata.name, "tour");
assert.equal(made.status.phase, "PHASE_QUEUED");

let output = "";
for await (const line of client.GetJobLogs({ tenant, job: "tour", follow: true }, metadata)) output += line.text;
assert.ok(output.includes("hello from node"), output);

await call("CreateJob", { tenant, id: "node-2", body: file("long", ["sleep", "600"]) });
const phases = [];
const watch = client.WatchJob({ tenant, job: "long" }, metadata);
for await (const change of watch) {
  const { phase } = change.job.status;
  if (phases.at(-1) !== phase) phases.push(phase);
  if (phase === "PHASE_PROCESSING") await call("CancelJob", { tenant, job: "long" });
  if (phase === "PHASE_CANCELLED") break;
}
assert.ok(phases.includes("PHASE_PROCESSING"), phases.join());

const refused = await call("GetJob", { tenant, job: "nobody" }).catch((error) => error);
assert.equal(refused.code, grpc.status.NOT_FOUND);
assert.ok(refused.metadata.get("grpc-status-details-bin")[0].includes("NotFoundError"));
watch.cancel();
client.close();
console.log("submitted, followed and cancelled");
process.exit(0);
