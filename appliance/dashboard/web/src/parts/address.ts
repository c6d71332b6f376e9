/** What is chosen on a page, kept in its address: it survives a reload and can be sent to others. */

import { useLocation, useSearch } from "wouter-preact";

/** A query with some values changed; empty ones leave it. */
export function changed(search: string, values: Readonly<Record<string, string>>): string {
  const query = new URLSearchParams(search);
  for (const [name, value] of Object.entries(values)) {
    if (value === "") query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  return text ? `?${text}` : "";
}

export interface Address {
  get: (name: string) => string;
  set: (values: Readonly<Record<string, string>>) => void;
}

export function useAddress(): Address {
  const [path, navigate] = useLocation();
  const search = useSearch();
  const query = new URLSearchParams(search);
  return {
    get: (name) => query.get(name) ?? "",
    set: (values) => navigate(`${path}${changed(window.location.search, values)}`, { replace: true }),
  };
}
