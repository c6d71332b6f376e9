/** How wide an element is now, for pictures that are drawn to their place. */

import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

export function useWidth(initial: number, least: number): [RefObject<HTMLDivElement>, number] {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(initial);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setWidth(Math.max(element.clientWidth, least)));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return [box, width];
}
