/** A job's SwarmX pods as a tree, from MemoryX on the left to the systems on the right: pure geometry. */

import type { Schemas } from "../api";
import type { Box, Edge, Picture } from "./layout";

export type Connection = Schemas["PodConnection"];

export interface TreeBox extends Box {
  /** Node that it runs on; empty for what is no SwarmX pod. */
  node: string;
}

export interface TreePicture extends Picture {
  boxes: TreeBox[];
}

const BOX = { width: 150, height: 44 };
const PITCH = BOX.height + 10;
const COLUMN = BOX.width + 60;
const MAX_SYSTEMS = 16;

/** Return the SwarmX pods of a job, root first. */
export function swarmxPods(connections: readonly Connection[]): Connection[] {
  return connections.filter((each) => /-broadcastreduce-\d+$/.test(each.pod));
}

/** Lay out the tree; with many systems, those of one pod share a box. */
export function layOutTree(connections: readonly Connection[]): TreePicture {
  const pods = new Map(swarmxPods(connections).map((each) => [each.pod, each]));
  const numSystems = [...pods.values()].reduce((sum, each) => sum + each.systems.length, 0);
  const below = new Set([...pods.values()].flatMap((each) => each.pods));
  const root = [...pods.keys()].find((name) => !below.has(name)) as string;
  const levels = depth(root, pods);
  const column = (level: number): number => 10 + level * COLUMN;
  const boxes: TreeBox[] = [];
  const edges: Edge[] = [];
  let rows = 0;
  const add = (id: string, label: string, node: string, level: number, y: number): number => {
    boxes.push({ id, label, node, x: column(level), y, ...BOX });
    return y;
  };
  const addSystems = (pod: Connection): number[] => {
    const shown = numSystems <= MAX_SYSTEMS ? pod.systems : pod.systems.length > 0 ? [several(pod.systems)] : [];
    return shown.map((label) => {
      edges.push({ from: pod.pod, to: label, label: "" });
      return add(label, label, "", levels + 1, 10 + rows++ * PITCH);
    });
  };
  const addPod = (name: string, level: number): number => {
    const pod = pods.get(name) as Connection;
    const inner = pod.pods.map((child) => {
      edges.push({ from: name, to: child, label: "" });
      return addPod(child, level + 1);
    });
    const places = [...inner, ...addSystems(pod)];
    return add(name, name.replace(/^.*-(broadcastreduce-\d+)$/, "$1"), pod.node, level, middle(places));
  };
  add("memoryx", "MemoryX", "", 0, addPod(root, 1));
  edges.push({ from: "memoryx", to: root, label: "" });
  return { width: column(levels + 1) + BOX.width + 10, height: 20 + rows * PITCH - (PITCH - BOX.height), boxes, edges };
}

function depth(name: string, pods: ReadonlyMap<string, Connection>): number {
  return 1 + Math.max(0, ...(pods.get(name) as Connection).pods.map((child) => depth(child, pods)));
}

const several = (names: readonly string[]): string =>
  names.length === 1 ? (names[0] as string) : `${names[0]} and ${names.length - 1} more`;

const middle = (places: readonly number[]): number => (Math.min(...places) + Math.max(...places)) / 2;
