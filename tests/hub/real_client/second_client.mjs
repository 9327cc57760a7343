// Reads and writes the repository owner/m on the Hub at argv[2] with the token argv[3]; prints one JSON document.
import * as hub from "@huggingface/hub";

const access = { hubUrl: process.argv[2], accessToken: process.argv[3] };
const repo = { type: "model", name: "owner/m" };
const found = { files: {}, models: [], commits: [] };

found.user = (await hub.whoAmI(access)).name;
found.model = (await hub.modelInfo({ name: "owner/m", additionalFields: ["sha"], ...access })).sha;
for await (const file of hub.listFiles({ repo, recursive: true, ...access })) {
  if (file.type !== "file") continue;
  const blob = await hub.downloadFile({ repo, path: file.path, ...access });
  const part = Buffer.from(await blob.slice(5, 10).arrayBuffer()).toString("hex");
  const whole = Buffer.from(await blob.arrayBuffer());
  found.files[file.path] = { size: whole.length, sha256: file.lfs?.oid ?? null, part };
}
for await (const model of hub.listModels({ search: { owner: "owner" }, ...access })) found.models.push(model.name);
for await (const commit of hub.listCommits({ repo, ...access })) found.commits.push(commit.title);
const operations = [
  { operation: "addOrUpdate", path: "a.txt", content: new Blob(["hi"]) },
  { operation: "addOrUpdate", path: "b.bin", content: new Blob(["b".repeat(20_000)]) },
];
const sent = await hub.commit({ repo, title: "Second", isPullRequest: true, useXet: false, operations, ...access });
found.pull_request = sent.pullRequestUrl;
const header = await hub.parseSafetensorsMetadata({ repo, ...access });
found.tensors = Object.keys(header.header).filter((name) => name !== "__metadata__");
console.log(JSON.stringify(found));
