/** The REST interface, drawn from the appliance's own description of it; nothing is loaded from elsewhere. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Card, Empty, Trouble } from "../parts/basics";
import { get, Problem } from "../api";
import { type Description, type Operation, operationsOf, typeName } from "../parts/openapi";
import { matches } from "../parts/search";

export function ApiDocs(): JSX.Element {
  const [value, setValue] = useState<Description>();
  const [problem, setProblem] = useState<Problem>();
  const [wanted, setWanted] = useState("");
  useEffect(() => {
    get<Description>("/openapi.json").then(setValue, (error: unknown) =>
      setProblem(error instanceof Problem ? error : new Problem(0, "The appliance does not answer.", "")),
    );
  }, []);
  const operations = value ? operationsOf(value).filter((each) => matches(`${each.method} ${each.path} ${each.summary} ${each.tag}`, wanted)) : [];
  const tags = [...new Set(operations.map((each) => each.tag))];
  return (
    <>
      <div class="title">
        <h1>REST API</h1>
        <a class="button push" href="/api/v1/openapi.json">
          OpenAPI file
        </a>
      </div>
      <Trouble problem={problem} />
      {value && (
        <Card>
          {value.info.description.split("\n\n").map((part) => (
            <Words key={part} text={part} />
          ))}
          <label class="field">
            Search
            <input type="search" aria-label="Search the API" value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} />
          </label>
        </Card>
      )}
      {value && operations.length === 0 && <Empty>No operation has these words. Try a part of its path, as in jobs.</Empty>}
      {tags.map((tag) => (
        <Card key={tag} title={tag}>
          {operations
            .filter((each) => each.tag === tag)
            .map((each) => (
              <OperationView key={`${each.method} ${each.path}`} operation={each} />
            ))}
        </Card>
      ))}
    </>
  );
}

/** A paragraph, or a list where the lines begin with `* `. */
const Words = ({ text }: { text: string }): JSX.Element =>
  text.startsWith("* ") ? (
    <ul>
      {text.slice(2).split("\n* ").map((line) => (
        <li key={line}>
          <Code text={line} />
        </li>
      ))}
    </ul>
  ) : (
    <p>
      <Code text={text} />
    </p>
  );

/** Words of which those between backticks are code. */
const Code = ({ text }: { text: string }): JSX.Element => (
  <>{text.split("`").map((part, index) => (index % 2 ? <code key={index}>{part}</code> : part))}</>
);

function OperationView({ operation }: { operation: Operation }): JSX.Element {
  const { method, path, summary, description, parameters, body, answers } = operation;
  return (
    <details class="operation">
      <summary>
        <code class="method">{method}</code> <code>{path}</code> <span class="quiet">{summary}</span>
      </summary>
      <Words text={description} />
      {parameters.length > 0 && (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th>Parameter</th>
                <th>In</th>
                <th>Type</th>
                <th>Default</th>
              </tr>
            </thead>
            <tbody>
              {parameters.map((each) => (
                <tr key={each.name}>
                  <td>
                    <code>{each.name}</code>
                    {each.required && <span class="quiet small"> required</span>}
                  </td>
                  <td>{each.in}</td>
                  <td>{typeName(each.schema)}</td>
                  <td>{each.schema?.default === undefined ? "" : JSON.stringify(each.schema.default)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {body && <p class="small">Body: {body}</p>}
      <p class="small">
        Answers:{" "}
        {answers.map(([status, words]) => (
          <span class="tag" key={status}>
            {status} {words}
          </span>
        ))}
      </p>
      <pre class="log fit">{`curl ${method === "GET" ? "" : `-X ${method} `}-H "Authorization: Bearer $TOKEN" '${window.location.origin}${path}'`}</pre>
    </details>
  );
}
