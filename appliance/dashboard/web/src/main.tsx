/** The shell: one bar, one page below it, one event stream behind both. */

import { render } from "preact";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { Link, Route, Switch, useLocation } from "wouter-preact";
import { needsLogin } from "./api";
import { connect, connection } from "./live";
import { ThemeSwitch } from "./parts/ThemeSwitch";
import { Toasts } from "./parts/toasts";
import { ApiDocs } from "./pages/ApiDocs";
import { Admin } from "./pages/Admin";
import { Cluster } from "./pages/Cluster";
import { Fabric } from "./pages/Fabric";
import { Job } from "./pages/Job";
import { Login } from "./pages/Login";
import { Planner } from "./pages/Planner";
import { Queue } from "./pages/Queue";
import { Run } from "./pages/Run";
import { Runs } from "./pages/Runs";
import { Wafer } from "./pages/Wafer";
import { loadAccount, Who } from "./parts/account";

const PAGES = [
  ["/", "Cluster"],
  ["/queue", "Queue"],
  ["/runs", "Runs"],
  ["/planner", "Planner"],
  ["/admin", "Admin"],
  ["/docs", "API"],
] as const;

function App(): JSX.Element {
  const [place] = useLocation();
  useEffect(() => {
    const name = PAGES.find(([path]) => path !== "/" && place.startsWith(path))?.[1] ?? (place.startsWith("/jobs/") ? place.split("/")[2] : place === "/" ? "Cluster" : "Not found");
    document.title = `${name} - Wafer appliance`;
  }, [place]);
  return (
    <>
      <a class="skip" href="#main">
        Skip to content
      </a>
      <header class="bar">
        <Link href="/" class="brand">
          <img src="/assets/icon.svg" width="24" height="24" alt="" /> Wafer appliance
        </Link>
        <nav aria-label="Pages">
          {PAGES.map(([path, name]) => (
            <Link key={path} href={path} class={(path === "/" ? place === "/" : place.startsWith(path)) ? "active" : ""} aria-current={place === path ? "page" : undefined}>
              {name}
            </Link>
          ))}
        </nav>
        <div class="tools">
          <Connected />
          <ThemeSwitch />
          <Who />
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        {needsLogin.value ? (
          <Login />
        ) : (
          <Switch>
            <Route path="/" component={Cluster} />
            <Route path="/queue" component={Queue} />
            <Route path="/runs" component={Runs} />
            <Route path="/runs/:id">{({ id }) => <Run id={id} />}</Route>
            <Route path="/jobs/:id">{({ id }) => <Job id={id} />}</Route>
            <Route path="/jobs/:id/wafer">{({ id }) => <Wafer id={id} />}</Route>
            <Route path="/jobs/:id/fabric">{({ id }) => <Fabric id={id} />}</Route>
            <Route path="/planner" component={Planner} />
            <Route path="/admin" component={Admin} />
            <Route path="/docs" component={ApiDocs} />
            <Route>
              <NoPage />
            </Route>
          </Switch>
        )}
      </main>
      <Toasts />
    </>
  );
}

const NoPage = (): JSX.Element => (
  <>
    <h1>There is no page here</h1>
    <p>
      The address may be mistyped. The <Link href="/queue">queue</Link> lists the jobs, the <Link href="/">cluster</Link> page shows what runs.
    </p>
  </>
);

function Connected(): JSX.Element {
  if (needsLogin.value) return <span class="badge tone-quiet" role="status">not logged in</span>;
  const tone = { live: "good", connecting: "quiet", lost: "bad" }[connection.value];
  const text = { live: "live", connecting: "connecting", lost: "connection lost, trying again" }[connection.value];
  return (
    <span class={`badge tone-${tone}`} role="status">
      {text}
    </span>
  );
}

void loadAccount().then(() => {
  if (!needsLogin.value) connect();
});
render(<App />, document.getElementById("app") as HTMLElement);
