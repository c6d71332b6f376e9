// Holds objects to the schemas that their projects publish; run by test_published_kinds.py.
// Standard input: a JSON array of objects. Output: a JSON array with the fault of each, or null.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const packages = {
  "cert-manager.io": "@kubernetes-models/cert-manager",
  "gateway.networking.k8s.io": "@kubernetes-models/gateway-api",
  "monitoring.coreos.com": "@kubernetes-models/prometheus-operator",
};
const modules = `${process.argv[2]}/node_modules`;

async function faultOf(object) {
  const [group, version] = object.apiVersion.split("/");
  const path = `${modules}/${packages[group]}/${group}/${version}/${object.kind}.js`;
  const models = await import(pathToFileURL(path));
  try {
    new models[object.kind](object).validate();
    return null;
  } catch (error) {
    return String(error.message);
  }
}

const objects = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(await Promise.all(objects.map(faultOf))));
