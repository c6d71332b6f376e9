/** A question that must be answered before anything else: the browser's own dialog. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";

export function Dialog(props: {
  title: string;
  confirm: string;
  /** What the other button says: what stays as it is when nothing is done. */
  dismiss: string;
  tone?: "danger" | "primary";
  onConfirm: (form: FormData) => void;
  onClose: () => void;
  children: ComponentChildren;
}): JSX.Element {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    element.current?.showModal();
  }, []);
  return (
    <dialog ref={element} onClose={props.onClose} aria-label={props.title}>
      <form
        method="dialog"
        onSubmit={(event) => {
          event.preventDefault();
          props.onConfirm(new FormData(event.currentTarget));
          element.current?.close();
        }}
      >
        <h2>{props.title}</h2>
        {props.children}
        <div class="controls">
          <button type="submit" class={props.tone ?? "primary"}>
            {props.confirm}
          </button>
          <button type="button" onClick={() => element.current?.close()}>
            {props.dismiss}
          </button>
        </div>
      </form>
    </dialog>
  );
}

/** Something to read, and nothing to decide. */
export function Note(props: { title: string; onClose: () => void; children: ComponentChildren }): JSX.Element {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    element.current?.showModal();
  }, []);
  return (
    <dialog ref={element} onClose={props.onClose} aria-label={props.title}>
      <h2>{props.title}</h2>
      {props.children}
      <button onClick={() => element.current?.close()}>Close</button>
    </dialog>
  );
}
