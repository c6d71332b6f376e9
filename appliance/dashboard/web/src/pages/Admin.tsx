/** Sessions, systems, users, tokens and who changed what. */

import type { JSX } from "preact";
import { isAdmin, me } from "../parts/account";
import { Audit } from "../parts/Audit";
import { Sessions } from "../parts/Sessions";
import { Systems } from "../parts/Systems";
import { Tokens } from "../parts/Tokens";
import { Users } from "../parts/Users";

export function Admin(): JSX.Element {
  return (
    <>
      <div class="title">
        <h1>Admin</h1>
        {me.value && <span class="quiet">You are {me.value.role.replace("-", " ")}.</span>}
      </div>
      <Sessions />
      <Systems />
      <Tokens />
      {isAdmin() && <Users />}
      {isAdmin() && <Audit />}
    </>
  );
}
