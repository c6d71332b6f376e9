/** The way in, where the appliance wants to know who asks. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Problem } from "../api";
import { connect } from "../live";
import { loadProvider, logIn, providerLogin } from "../parts/account";
import { Card, Trouble } from "../parts/basics";

export function Login(): JSX.Element {
  const [problem, setProblem] = useState<Problem>();
  const [provider, setProvider] = useState("");
  useEffect(() => {
    loadProvider().then(setProvider, () => undefined); // without an answer there is still the token
  }, []);
  const submit = async (form: FormData): Promise<void> => {
    try {
      await logIn(String(form.get("token")).trim());
      connect();
    } catch (error) {
      setProblem(error instanceof Problem ? error : new Problem(0, "The appliance does not answer.", ""));
    }
  };
  return (
    <>
      <h1>Log in</h1>
      <Trouble problem={problem} />
      {provider && (
        <Card>
          <p>
            <a class="button primary" href={providerLogin(location.pathname)}>
              Log in with {provider}
            </a>
          </p>
        </Card>
      )}
      <Card>
        <form
          class="form"
          onSubmit={(event) => {
            event.preventDefault();
            void submit(new FormData(event.currentTarget));
          }}
        >
          <label class="field">
            Token
            <input name="token" type="password" autocomplete="current-password" required autofocus />
          </label>
          <button class="primary">Log in</button>
        </form>
        <p class="quiet small">
          An administrator mints one with <code>appliance token</code>. It is the token that <code>csctl</code> and the client use.
        </p>
      </Card>
    </>
  );
}
