import { expect, it } from "vitest";
import { sumByModule } from "./modules";

it("adds spans up by module and pass, without those that enclose others", () => {
  const events = [
    { name: "step = 1", dur: 100 },
    { name: "fc1.fwd", cat: "fwd", dur: 10 },
    { name: "fc1.bwd", cat: "bwd", dur: 30 },
    { name: "fc1.fwd", cat: "fwd", dur: 5 },
  ];
  expect(sumByModule(events)).toEqual([
    { module: "fc1", direction: "bwd", seconds: 30 / 1e6 },
    { module: "fc1", direction: "fwd", seconds: 15 / 1e6 },
  ]);
});
