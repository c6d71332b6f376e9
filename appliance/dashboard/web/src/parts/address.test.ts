import { expect, test } from "vitest";
import { changed } from "./address";

test("what is chosen goes into the query, what is empty leaves it", () => {
  expect(changed("?jobs=all&text=gpt", { text: "", sort: "user" })).toBe("?jobs=all&sort=user");
  expect(changed("?text=a", { text: "" })).toBe("");
  expect(changed("", { text: "team=a b" })).toBe("?text=team%3Da+b");
});
